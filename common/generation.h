#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/generation_request.h"
#include "common/tokenizer/tokenizer.h"

namespace specdec {

// A Generation itself ends with one of the first two; the program that runs it may set the others.
enum class FinishReason { kStop, kLength, kCancelled, kError };

std::string_view finish_reason_name(FinishReason reason);  // "stop", "length", "cancelled", "error"

// What a request has produced so far, and whether it is done. It checks all stop conditions, in
// this order: an eos token, a stop text, the number of tokens. Tokens arrive one by one.
class Generation {
 public:
  // tokenizer: null if there is none; then there is no text. REQUIRES: all arguments outlive this
  // object.
  Generation(const GenerationRequest& request, const Tokenizer* tokenizer);

  // REQUIRES: not finished.
  void push(TokenId id);

  bool finished() const { return reason_.has_value(); }
  FinishReason finish_reason() const { return *reason_; }      // REQUIRES: finished
  std::span<const TokenId> tokens() const { return tokens_; }  // including an eos that ended it
  const std::string& text() const { return text_; }            // without a stop text that ended it

  // The text that may be shown: whole UTF-8 characters, but nothing at the end that may be the
  // beginning of a stop text. Once finished, it is all of the text.
  std::string_view certain_text() const { return std::string_view(text_).substr(0, certain_); }
  // The part of it that became certain with token i.
  std::string_view text_of(int i) const;

 private:
  void append(std::string_view text);
  void finish(FinishReason reason);

  const GenerationRequest& request_;
  std::optional<StreamDecoder> decoder_;
  std::vector<TokenId> tokens_;
  std::string text_;
  std::size_t certain_ = 0;                 // bytes of text_ that may be shown,
  std::vector<std::size_t> certain_after_;  // and after each token
  std::optional<FinishReason> reason_;
};

}  // namespace specdec
