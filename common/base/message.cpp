#include "common/base/message.h"

#include <filesystem>

#include <fmt/format.h>

#include "common/base/utf8.h"

namespace specdec {

std::string one_line(std::string_view text, std::size_t most) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
  std::string out;
  std::size_t offset = 0;
  while (offset < text.size() && out.size() < most) {
    const Utf8Step step = next_utf8(text.substr(offset));
    if (step.kind != Utf8Step::Kind::kCharacter) {
      out += kReplacement;
    } else if (step.character == '\n') {
      out += "\\n";
    } else if (step.character < 0x20 || (step.character >= 0x7F && step.character < 0xA0)) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(step.character));
    } else {
      out += text.substr(offset, step.length);
    }
    offset += step.length;
  }
  return out + (offset < text.size() ? "..." : "");
}

std::string as_message(std::string_view text) {
  constexpr std::size_t kBegin = 1000, kEnd = 400;
  const std::string line = one_line(text);
  if (line.size() <= kBegin + kEnd) return line;
  return one_line(line.substr(0, kBegin)) + " ... " + one_line(line.substr(line.size() - kEnd));
}

std::string message_of(const std::exception& error) {
  const auto* of_file = dynamic_cast<const std::filesystem::filesystem_error*>(&error);
  if (of_file == nullptr) return as_message(error.what());
  const std::string path = of_file->path1().string();
  return as_message(fmt::format("{}: {}", path.empty() ? "the current directory" : path,
                                of_file->code().message()));
}

}  // namespace specdec
