#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/generation.h"
#include "common/run_stats.h"
#include "common/speculation/capacity.h"
#include "common/speculation/draft_shape.h"
#include "common/speculation/spec_length_policy.h"
#include "stages/05_rejection_sampling/judge.h"

namespace specdec {

// The number of a request in an engine: 0, 1, 2, ... in the order of add_request(). Never reused.
using RequestId = std::int64_t;

// Times are seconds on the engine's clock; NaN: it has not happened.
struct RequestStats {
  static constexpr double kNever = std::numeric_limits<double>::quiet_NaN();

  RunStats run;  // prefill_seconds: from admission to the first round; decode_seconds: the rest
  double arrived = kNever, admitted = kNever, first_round = kNever, first_token = kNever;
  double last_token = kNever, finished = kNever;
  int steps = 0;           // steps in which it had rows
  int preemptions = 0;     // how often it lost its pages
  int prefix_tokens = 0;   // prompt tokens found in the prefix cache at its first admission
  double longest_gap = 0;  // the longest time between two deliveries of tokens

  double time_to_first_token() const { return first_token - arrived; }
  // The mean time per token after the first one; NaN for fewer than two tokens.
  double time_per_output_token() const {
    return run.emitted > 1 ? (last_token - first_token) / static_cast<double>(run.emitted - 1)
                           : kNever;
  }
};

// Used from stage 10 on: the state of a request whose rounds are not those of one text.
class RequestExtension {
 public:
  virtual ~RequestExtension() = default;
};

// What one request asks for.
struct BatchRequest {
  // The output depends on these members alone.
  GenerationRequest generation;    // prompt ids, limits, eos ids, stop texts
  SpeculationOptions speculation;  // how tokens are chosen and drafts judged
  std::uint64_t seed = 0;          // of all its random numbers
  int spec_length = 0;             // the largest K; 0: no speculation
  int context_limit = 0;           // positions of the target that it may use; 0: max_seq_len()
  // Makes the policy that chooses K of each round; none: K is always spec_length.
  std::function<std::unique_ptr<SpecLengthPolicy>()> make_policy = {};

  // Used from stage 8 on, where drafts may branch: the shape of its drafts, and what its rounds
  // need with it. None: as the drafter has them.
  std::function<std::unique_ptr<DraftShape>()> make_shape = {};
  RoundCapacity capacity = {};

  // Used from stage 10 on; none: rounds of one text.
  std::function<std::shared_ptr<RequestExtension>()> make_extension = {};

  // For reports and for the source of requests.
  std::string id = {}, where = {};        // its name; the file and line that it comes from
  double arrival = RequestStats::kNever;  // on the engine's clock; NaN: when it is added
  bool is_chat = false;
  std::string error = {};  // why it cannot be run; if not empty, an engine refuses it
};

// The most tokens that a request ever has in each cache. capacity: of rounds, unless the request
// has its own.
struct MostCached {
  std::int64_t by_target = 0, by_draft = 0;
};
MostCached most_cached(const BatchRequest& request, const RoundCapacity& capacity,
                       int draft_context_limit);

// The new tokens of one request after a step, in order, and its new text that can no longer change.
// The views are valid during the callback.
struct Delivery {
  RequestId id = 0;
  std::span<const TokenId> tokens = {};              // none if the request only ended
  std::string_view text = {};                        // empty without a tokenizer
  bool finished = false;                             // true for the last delivery
  FinishReason finish_reason = FinishReason::kStop;  // valid if finished
  std::string_view error = {};                       // the reason, if kError
};
using OnDelivery = std::function<void(const Delivery&)>;

// The outcome of a request. If it was cancelled, its last tokens may not have been delivered.
struct RequestResult {
  RequestId id = 0;
  int prompt_tokens = 0;
  std::vector<TokenId> tokens;
  std::string text;
  FinishReason finish_reason = FinishReason::kStop;
  std::string error;  // one line, if kError
  RequestStats stats;
  std::shared_ptr<const RequestExtension> extension = {};  // used from stage 10 on
};

}  // namespace specdec
