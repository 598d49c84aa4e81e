#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace specdec {

// A list of many short strings in one allocation; strings are only appended. A vector of
// std::string would take 32 bytes for each token and each half of a merge, several times as much as
// their text.
class StringList {
 public:
  void add(std::string_view text) {
    characters_ += text;
    ends_.push_back(characters_.size());
  }
  std::size_t size() const { return ends_.size(); }
  // The view is valid until the next add, and not after a move.
  std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(characters_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string characters_;
  std::vector<std::size_t> ends_;
};

}  // namespace specdec
