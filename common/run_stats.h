#pragma once
#include <cstdint>
#include <vector>

namespace specdec {

// What a run did. Counts are exact and the same on every machine; seconds are not.
struct RunStats {
  // Of the decode loop. `rounds` counts rounds of speculation; plain decoding has none.
  std::int64_t rounds = 0;
  std::int64_t target_forwards = 0;
  std::int64_t draft_forwards = 0;
  std::int64_t drafted = 0;
  std::int64_t refused = 0;  // by a gate, each after a pass of the draft model
  std::int64_t counted = 0;  // of them, not behind a stop; what reports call drafted
  std::int64_t tested = 0;
  std::int64_t accepted = 0;
  std::int64_t emitted = 0;                     // tokens
  std::int64_t drafted_rounds = 0;              // rounds that drafted anything
  std::vector<std::int64_t> rounds_by_drafted;  // [K + 1] rounds that drafted 0, 1, ... tokens
  double sum_round_acceptance = 0;              // over those that did, of accepted / K
  double sum_acceptance_prob = 0;               // over the tested drafts, of sum min(p, q)
  // [the longest round's K] rounds that accepted, drafted, more than i tokens.
  std::vector<std::int64_t> accepted_at, drafted_at;

  std::int64_t target_rows = 0;          // tokens that the target computed, the prompt's included
  std::int64_t target_weight_bytes = 0;  // read by the target's matrix products
  std::int64_t cache_bytes = 0;          // of the target's cache, 0: it has none
  double prefill_seconds = 0;
  double decode_seconds = 0;
  // Of them, in speculation.
  double draft_seconds = 0;
  double catch_up_seconds = 0;        // in rounds where a draft model lagged behind the text:
  std::int64_t catch_up_drafted = 0;  // the first one, with its prefill, and after plain steps
  double verify_seconds = 0;

  double tokens_per_second() const { return decode_seconds > 0 ? emitted / decode_seconds : 0; }
};

}  // namespace specdec
