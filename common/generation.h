#pragma once
#include <functional>
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
  // Gets the text piece by piece, in whole UTF-8 characters. Text that may be the beginning of a
  // stop text is held back.
  using Sink = std::function<void(std::string_view text)>;

  // tokenizer: null if there is none; then there is no text. REQUIRES: all arguments outlive this
  // object.
  Generation(const GenerationRequest& request, const Tokenizer* tokenizer, Sink sink = {});

  // REQUIRES: not finished.
  void push(TokenId id);

  bool finished() const { return reason_.has_value(); }
  FinishReason finish_reason() const { return *reason_; }      // REQUIRES: finished
  std::span<const TokenId> tokens() const { return tokens_; }  // including an eos that ended it
  const std::string& text() const { return text_; }            // without a stop text that ended it

 private:
  void append(std::string_view text);
  void release_up_to(std::size_t end);
  void finish(FinishReason reason);

  const GenerationRequest& request_;
  Sink sink_;
  std::optional<StreamDecoder> decoder_;
  std::vector<TokenId> tokens_;
  std::string text_;
  std::size_t released_ = 0;  // bytes of text_ that the sink has received
  std::optional<FinishReason> reason_;
};

}  // namespace specdec
