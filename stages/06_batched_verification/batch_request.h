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
#include "common/speculation/spec_length_policy.h"
#include "stages/05_rejection_sampling/judge.h"

namespace specdec {

// A request in an engine: 0, 1, 2, ... in the order in which they were added. Never used again.
using RequestId = std::int64_t;

// Times are seconds of the engine's clock; NaN: that never happened.
struct RequestStats {
  static constexpr double kNever = std::numeric_limits<double>::quiet_NaN();

  RunStats run;  // prefill_seconds: from admission to the first round; decode_seconds: from there
  double arrived = kNever, admitted = kNever, first_round = kNever, first_token = kNever;
  double last_token = kNever, finished = kNever;
  int steps = 0;           // in which it had rows
  int preemptions = 0;     // times that it lost its pages
  int prefix_tokens = 0;   // of its prompt, found in the prefix cache when it was first admitted
  double longest_gap = 0;  // between deliveries

  double time_to_first_token() const { return first_token - arrived; }
  // After the first, on average; NaN for fewer than two tokens.
  double time_per_output_token() const {
    return run.emitted > 1 ? (last_token - first_token) / static_cast<double>(run.emitted - 1)
                           : kNever;
  }
};

// What one request asks for.
struct BatchRequest {
  // Its output depends on nothing else.
  GenerationRequest generation;    // prompt ids, limits, eos ids, stop texts
  SpeculationOptions speculation;  // how tokens are chosen and drafts judged
  std::uint64_t seed = 0;          // of all its random numbers
  int spec_length = 0;             // K; 0: no speculation
  int context_limit = 0;           // positions of the target that it may use; 0: all there are
  // What chooses K of each round, up to spec_length; none: it is spec_length.
  std::function<std::unique_ptr<SpecLengthPolicy>()> make_policy = {};

  // For people, and for where it comes from.
  std::string id = {}, where = {};        // what it is called, and where it was asked for
  double arrival = RequestStats::kNever;  // by the engine's clock; NaN: when it is added
  bool is_chat = false;
  std::string error = {};  // why it cannot be run; then an engine refuses it
};

// The most tokens of a request that are ever cached, in both caches.
struct MostCached {
  std::int64_t by_target = 0, by_draft = 0;
};
MostCached most_cached(const BatchRequest& request, const RoundCapacity& capacity,
                       int draft_context_limit);

// What a step brought for one request: its new tokens in order, and the text that is certain by
// now. The views are valid during the call.
struct Delivery {
  RequestId id = 0;
  std::span<const TokenId> tokens = {};              // none where it only ended
  std::string_view text = {};                        // empty without a tokenizer
  bool finished = false;                             // then this is the last one
  FinishReason finish_reason = FinishReason::kStop;  // where it is finished
  std::string_view error = {};                       // why, where it is kError
};
using OnDelivery = std::function<void(const Delivery&)>;

// What became of a request. Where it was cancelled, tokens may be among these that were not
// delivered any more.
struct RequestResult {
  RequestId id = 0;
  int prompt_tokens = 0;
  std::vector<TokenId> tokens;
  std::string text;
  FinishReason finish_reason = FinishReason::kStop;
  std::string error;  // one line, where it is kError
  RequestStats stats;
};

}  // namespace specdec
