#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "common/tokenizer/split_regex.h"

namespace specdec {

// Cuts text into words; merges never cross from one word into the next. It is a chain of patterns.
// Each pattern cuts the pieces that the pattern before it made, and sees only one piece at a time,
// so "end of text" in a pattern means the end of the piece.
class PreTokenizer {
 public:
  // Adds a pattern to the end of the chain.
  void add(SplitRegex pattern);
  // The number of patterns. split() recurses once for each.
  std::size_t size() const { return patterns_.size(); }
  // From here on, a piece that does not begin with a space gets one in front (ByteLevel's
  // add_prefix_space). REQUIRES: called at most once.
  void add_prefix_space();

  // Calls sink for each word, in order; words are never empty. REQUIRES: text is UTF-8. Errors: as
  // SplitRegex::split. May run in several threads. The view is valid during the call only.
  void split(std::string_view text, const std::function<void(std::string_view)>& sink) const;

 private:
  void split_from(std::size_t step, std::string_view piece,
                  const std::function<void(std::string_view)>& sink) const;

  static constexpr std::size_t kNever = ~std::size_t{0};
  std::vector<SplitRegex> patterns_;
  std::size_t prefix_space_before_ = kNever;  // the space is added before this step
};

}  // namespace specdec
