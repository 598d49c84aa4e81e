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
  std::int64_t counted = 0;  // drafted, but not after a stop; reports call this number drafted
  std::int64_t tested = 0;
  std::int64_t accepted = 0;
  std::int64_t emitted = 0;                     // tokens
  std::int64_t drafted_rounds = 0;              // rounds that drafted anything
  std::vector<std::int64_t> rounds_by_drafted;  // [K + 1] rounds that drafted 0, 1, ... tokens
  double sum_round_acceptance = 0;              // of accepted / K, over the drafted rounds
  double sum_acceptance_prob = 0;               // of sum min(p, q), over the tested drafts
  // [the longest round's K] rounds that accepted, or drafted, more than i tokens.
  std::vector<std::int64_t> accepted_at, drafted_at;

  std::int64_t target_rows = 0;          // tokens that the target computed, including the prompt's
  std::int64_t target_weight_bytes = 0;  // read by the target's matrix products
  std::int64_t cache_bytes = 0;          // of the target's cache; 0: there is none
  double prefill_seconds = 0;
  double decode_seconds = 0;
  // Parts of decode_seconds, in speculation.
  double draft_seconds = 0;
  // Of rounds in which a draft model first caught up with the text: the first round, with the
  // draft's prefill, and rounds after plain steps.
  double catch_up_seconds = 0;
  std::int64_t catch_up_drafted = 0;
  double verify_seconds = 0;

  double tokens_per_second() const { return decode_seconds > 0 ? emitted / decode_seconds : 0; }
};

}  // namespace specdec
