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

// A generation ends by the first two; whoever runs it may end it otherwise.
enum class FinishReason { kStop, kLength, kCancelled, kError };

std::string_view finish_reason_name(FinishReason reason);  // "stop", "length", "cancelled", "error"

// What a request has produced so far, and whether it is done. All stop conditions live here: an eos
// token, a stop text, the number of tokens, in this order. Tokens arrive one by one.
class Generation {
 public:
  // Gets the text piece by piece: whole UTF-8 characters, and nothing that a stop text may still
  // swallow.
  using Sink = std::function<void(std::string_view text)>;

  // tokenizer: null where there is none, and no text. REQUIRES: all arguments outlive this object.
  Generation(const GenerationRequest& request, const Tokenizer* tokenizer, Sink sink = {});

  // REQUIRES: not finished.
  void push(TokenId id);

  bool finished() const { return reason_.has_value(); }
  FinishReason finish_reason() const { return *reason_; }      // REQUIRES: finished
  std::span<const TokenId> tokens() const { return tokens_; }  // an eos that ended it included
  const std::string& text() const { return text_; }            // a stop text that ended it excluded

 private:
  void append(std::string_view text);
  void release_up_to(std::size_t end);
  void finish(FinishReason reason);

  const GenerationRequest& request_;
  Sink sink_;
  std::optional<StreamDecoder> decoder_;
  std::vector<TokenId> tokens_;
  std::string text_;
  std::size_t released_ = 0;  // characters of text_ that the sink has
  std::optional<FinishReason> reason_;
};

}  // namespace specdec
