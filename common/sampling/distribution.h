#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/token_id.h"
#include "kernels/int_size.h"

namespace specdec {

// How a model's logits become the distribution of the next token.
struct SamplingOptions {
  double temperature = 0;         // 0: always the likeliest token
  int top_k = 0;                  // 0: off
  double top_p = 1;               // 1: off
  double repetition_penalty = 1;  // 1: off
};

// What ranks tokens where the likeliest one is taken: the distribution before the argmax, at
// temperature 1.
inline SamplingOptions before_argmax(const SamplingOptions& options) {
  return {.temperature = 1, .repetition_penalty = options.repetition_penalty};
}

// Throws Error, naming the option, when a number is out of range: temperature and top_k at least 0,
// top_p above 0 and at most 1, the penalty above 0; none may be NaN or infinite.
void check_sampling_options(const SamplingOptions& options);

// The same for one temperature; `option` is its name in the message.
void check_temperature(double temperature, std::string_view option = "--temperature");

// Working memory of probabilities(), for a vocabulary of a given size. Threads must not share it.
class SamplingScratch {
 public:
  explicit SamplingScratch(int vocab_size);  // below 2^20
  int vocab_size() const { return int_size(scores_); }

 private:
  friend class SamplingPipeline;
  std::vector<float> scores_;              // [V] logits after the penalty
  std::vector<float> kept_scores_, work_;  // [V]; `kept`: of the tokens that the filters keep
  std::vector<double> weights_;            // [V]
  std::vector<std::uint64_t> keys_;        // [V] for the order of top-p
  std::vector<TokenId> ids_;               // [V]
};

// From logits [V] to the distribution [V] of the token after `history`: "standardized sampling"
// (Leviathan et al., section 2.2). Whatever the options are, drawing is then plain sampling from
// probs. Speculation needs to know nothing about the options, as long as it both draws from probs
// and accepts by probs.
//
// The steps, in the order of Hugging Face transformers. Weights and probabilities are float64, by
// the operations and sums of kernels/sampling.h, so that a GPU gets the same bits:
// 1. Repetition penalty (Keskar et al., CTRL, section 4.1): a token of the history has its logit
//    divided by the penalty if it is positive, multiplied if it is negative, and rounded to
//    float32; once, however often the token occurs. The history is every token before the position:
//    the prompt, the text and, in a round, the drafted tokens before it.
// 2. Temperature (logit / temperature). At 0, the largest logit gets probability 1, the lowest id
//    among equals, and the steps below do nothing.
// 3. Top-k: the k largest logits stay, and those equal to the last of them.
// 4. Top-p (Holtzman et al., section 3.1): go through the tokens from the likeliest on, the lower
//    id first among equals. A token stays while the tokens before it hold less than top_p. Weights
//    count in multiples of 2^-44 of the likeliest token's; a weight that rounds to 0 does not stay.
// 5. Softmax over what stayed.
// Logits of minus infinity get probability zero; those at the end (padding) cost next to nothing.
// probs is finite, not negative, and sums to 1 up to rounding. Allocates nothing.
//
// REQUIRES: probs has the logits' size, and the scratch at least that; history holds ids of the
// vocabulary.
// Throws Error when an option is out of range, and BadLogits when a logit is NaN or plus infinity,
// or when all are minus infinity; the contents of probs are then unspecified.
void probabilities(std::span<const float> logits, std::span<const TokenId> history,
                   const SamplingOptions& options, SamplingScratch& scratch,
                   std::span<double> probs);

// Draws by inversion: the first token, in the order of ids, at which the running sum of probs [V]
// (kernels/sampling.h) exceeds u times their total. A token of probability zero is never returned,
// whatever u is and however the sums round.
// REQUIRES: 0 <= u < 1; no prob is negative or NaN; their total, which need not be 1, is positive
// and finite.
TokenId sample(std::span<const double> probs, double u);

}  // namespace specdec
