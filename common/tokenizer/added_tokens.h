#pragma once
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/token_id.h"

namespace specdec {

// A token that is found in the raw text before anything else happens: <|eot_id|> and the like, or
// words that a fine-tuning added. The flags are those of Hugging Face's tokenizers.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;      // decoding leaves it out unless asked
  bool single_word = false;  // only if no word character is directly before or after it
  bool lstrip = false;       // takes the white space on its left with it
  bool rstrip = false;       // takes the white space on its right with it
  bool normalized = false;   // found after the others, in what they left
  bool operator==(const AddedToken&) const = default;
};

// How to treat text that looks like a special token.
enum class SpecialText { kToken, kOrdinary };

// Finds added tokens from left to right, at each place the longest one.
class AddedTokens {
 public:
  AddedTokens() = default;
  // REQUIRES: contents are UTF-8, not empty, and all different.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // In the order of the file.
  const std::vector<AddedToken>& all() const { return tokens_; }

  using OnText = std::function<void(std::string_view)>;
  using OnToken = std::function<void(TokenId)>;
  // In the order of the text, calls on_token for each added token and on_text for each stretch
  // between them, which is never empty. REQUIRES: text is UTF-8. May run in several threads.
  void split(std::string_view text, SpecialText special_text, const OnText& on_text,
             const OnToken& on_token) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  // The tokens that are searched for in one pass over the text.
  struct Pass {
    std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> token_of_content;
    // By first byte: the lengths that occur, longest first.
    std::array<std::vector<std::size_t>, 256> lengths;
    void add(const std::string& content, std::size_t token);
    std::optional<std::size_t> longest_at(std::string_view text, std::size_t offset) const;
  };

  void split_pass(const Pass& pass, SpecialText special_text, std::string_view text,
                  const OnText& on_text, const OnToken& on_token) const;
  bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) const;

  std::vector<AddedToken> tokens_;
  Pass raw_;
  Pass normalized_;
};

}  // namespace specdec
