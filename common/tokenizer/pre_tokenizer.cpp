#include "common/tokenizer/pre_tokenizer.h"

#include <string>
#include <utility>

#include "common/base/check.h"

namespace specdec {

void PreTokenizer::add(SplitRegex pattern) { patterns_.push_back(std::move(pattern)); }

void PreTokenizer::add_prefix_space() {
  SPECDEC_CHECK(prefix_space_before_ == kNever, "one ByteLevel in a chain");
  prefix_space_before_ = patterns_.size();
}

void PreTokenizer::split(std::string_view text,
                         const std::function<void(std::string_view)>& sink) const {
  if (!text.empty()) split_from(0, text, sink);
}

void PreTokenizer::split_from(std::size_t step, std::string_view piece,
                              const std::function<void(std::string_view)>& sink) const {
  std::string spaced;
  if (step == prefix_space_before_ && piece.front() != ' ') {
    spaced = " " + std::string(piece);
    piece = spaced;
  }
  if (step == patterns_.size()) return sink(piece);
  if (step + 1 == patterns_.size() && prefix_space_before_ != patterns_.size()) {
    return patterns_[step].split(piece, sink);  // the usual case: no lambda in between
  }
  patterns_[step].split(piece, [&](std::string_view part) { split_from(step + 1, part, sink); });
}

}  // namespace specdec
