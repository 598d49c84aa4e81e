#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "common/language_model.h"
#include "stages/05_rejection_sampling/acceptance.h"
#include "tests/course/probes/sampling_scenes.h"

// One place of a text for the probe of stage 5: what the models say there, and a draft.
namespace specdec::course {

// What a target says after a context: one row of logits.
struct OneRow {
  OneRow(std::uint64_t seed, int V, int context_length)
      : rows(V, seed, seed, 1),
        model(V, rows.row_of()),
        buffer(model, 1),
        context(tokens_of(seed, context_length, V)) {
    model.forward(Segment{model.create(), context, 1}, logits());
  }
  DeviceRows logits() const { return buffer.rows(0, 1); }

  Rows rows;
  TableModel model;
  LogitsBuffer buffer;
  Tokens context;
};

// Two distributions at one place, and a draft.
struct Models {
  std::string name;
  Probs p, q;  // q empty: one-hot
  TokenId token;
};

inline std::vector<Models> pairs_of(std::uint64_t seed) {
  std::vector<Models> pairs;
  for (int i = 0; i < 3; i++) {
    const Probs p = probs_of(seed, 2 * i, 6, i > 0), q = probs_of(seed, 2 * i + 1, 6, i > 1);
    int token = 0;  // one that the draft likes better
    for (int t = 0; t < 6; t++) {
      if (p[std::size_t(t)] / q[std::size_t(t)] < p[std::size_t(token)] / q[std::size_t(token)]) {
        token = t;
      }
    }
    pairs.push_back({fmt::format("pair {}", i), p, q, token});
  }
  pairs[2].name = "p and q rule out different tokens";
  pairs.push_back({"p and q share no token", {0.25, 0.75, 0, 0}, {0, 0, 0.5, 0.5}, 3});
  pairs.push_back({"the draft was certain", probs_of(seed, 9, 4, false), {}, 2});
  return pairs;
}

inline Proposal proposal_of(const Models& pair, int position) {
  return {.position = position, .token = pair.token, .target_probs = pair.p, .draft_probs = pair.q};
}

}  // namespace specdec::course
