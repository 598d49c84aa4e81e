#include "common/generation.h"

#include <algorithm>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

// How many bytes at the text's end may be the beginning of a stop text.
std::size_t undecided(std::string_view text, std::span<const std::string> stops) {
  std::size_t longest = 0;
  for (const std::string& stop : stops) {
    for (std::size_t n = std::min(stop.size() - 1, text.size()); n > longest; --n) {
      if (text.ends_with(std::string_view(stop).substr(0, n))) longest = n;
    }
  }
  return longest;
}

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    default:
      return "error";
  }
}

Generation::Generation(const GenerationRequest& request, const Tokenizer* tokenizer)
    : request_(request) {
  if (tokenizer != nullptr) decoder_.emplace(*tokenizer);
  tokens_.reserve(request.max_new_tokens);
  certain_after_.reserve(request.max_new_tokens);
}

std::string_view Generation::text_of(int i) const {
  const std::size_t before = i == 0 ? 0 : certain_after_[i - 1];
  return std::string_view(text_).substr(before, certain_after_[i] - before);
}

void Generation::push(TokenId id) {
  SPECDEC_CHECK(!finished(), "no tokens after the end");
  tokens_.push_back(id);
  const bool is_eos = std::ranges::find(request_.eos_ids, id) != request_.eos_ids.end();
  if (decoder_ && !is_eos) append(decoder_->push(id));
  if (!finished() && is_eos) finish(FinishReason::kStop);
  if (!finished() && int_size(tokens_) >= request_.max_new_tokens) finish(FinishReason::kLength);
  certain_after_.push_back(certain_);
}

// Adds text, and ends the generation if a stop text is complete.
void Generation::append(std::string_view text) {
  text_ += text;
  std::size_t stop_at = std::string::npos;
  for (const std::string& stop : request_.stop) {
    stop_at = std::min(stop_at, text_.find(stop, certain_));
  }
  if (stop_at != std::string::npos) {
    text_.resize(stop_at);
    reason_ = FinishReason::kStop;
    certain_ = text_.size();
  } else {
    certain_ = std::max(certain_, text_.size() - undecided(text_, request_.stop));
  }
}

void Generation::finish(FinishReason reason) {
  if (decoder_) append(decoder_->finish());
  if (finished()) return;  // by a stop text in the characters that were waiting
  reason_ = reason;
  certain_ = text_.size();
}

}  // namespace specdec
