// Any bytes as a tokenizer.json: it loads, and then encodes and decodes, or there is an Error.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/utf8.h"
#include "common/tokenizer/tokenizer.h"

namespace {

using specdec::TokenId;
using specdec::Tokenizer;

// A short text that has something for every part: white space, letters, digits, contractions, more
// than one script, and what stands in the file itself.
void try_out(const Tokenizer& tokenizer) {
  std::string text = "It's 12345 \t\n  o'clock\xC2\xA0\xE4\xB8\xAD\xF0\x9F\xA6\x99!";
  for (const auto& token : tokenizer.added_tokens()) {
    if (text.size() < 1000) text += token.content + " ";
  }
  for (const bool special : {true, false}) {
    std::vector<TokenId> ids;
    try {
      ids = tokenizer.encode(text, special);
    } catch (const specdec::Error&) {
      return;  // the split pattern gave up
    }
    for (const TokenId id : ids) SPECDEC_CHECK(tokenizer.contains(id), "encode to give known ids");
    specdec::StreamDecoder decoder(tokenizer, special);
    std::string streamed;
    for (const TokenId id : ids) streamed += decoder.push(id);
    streamed += decoder.finish();
    SPECDEC_CHECK(streamed == tokenizer.decode(ids, special), "the stream to give decode's text");
    SPECDEC_CHECK(!specdec::find_invalid_utf8(streamed), "decode to give UTF-8");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  try {
    try_out(Tokenizer::parse(json, "input"));
  } catch (const specdec::Error& error) {
    const std::string_view message = error.what();
    SPECDEC_CHECK(message.find('\n') == std::string_view::npos, "one line, not {}", message);
    SPECDEC_CHECK(!specdec::find_invalid_utf8(message), "a message in UTF-8");
  }
  return 0;
}
