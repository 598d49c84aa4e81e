#pragma once
#include <random>
#include <utility>

#include "stages/00_toy_speculation/example_tables.h"
#include "stages/00_toy_speculation/several_drafts.h"
#include "stages/00_toy_speculation/toy_speculation.h"

namespace specdec::toy {

inline constexpr double kExact = 1e-12;   // of what must be equal
inline constexpr double kVisible = 1e-3;  // of what must differ

// Stage 0's rows after its first word.
inline const Probs kTarget = example_tables().target_probs[0],
                   kDraft = example_tables().draft_probs[0];

inline double difference(const Probs& target_probs, const TrialsLaw& trials) {
  return largest_difference(trials.law, law_of(target_probs));
}

inline Probs normalised(Probs weights) {
  double total = 0;
  for (const double weight : weights) total += weight;
  for (double& weight : weights) weight /= total;
  return weights;
}

// A row of random probabilities; every third is zero, but never all of them.
inline Probs random_row(int V, std::mt19937& random) {
  std::uniform_real_distribution<double> weight(0.05, 1);
  Probs row(static_cast<std::size_t>(V));
  for (double& prob : row) prob = random() % 3 == 0 ? 0 : weight(random);
  row[random() % row.size()] += 0.1;
  return normalised(row);
}

inline Probs one_hot(int V, TokenId token) {
  Probs row(static_cast<std::size_t>(V));
  row[token] = 1;
  return row;
}

// Tables whose rows for each context come from `rows`: a pair (target's, draft's).
template <typename Rows>
Tables make_tables(int V, Rows&& rows) {
  Tables tables;
  for (TokenId context = 0; context < V; context++) {
    auto [target_probs, draft_probs] = rows(context);
    tables.target_probs.push_back(target_probs);
    tables.draft_probs.push_back(draft_probs);
  }
  return tables;
}

inline Tables random_tables(int V, std::mt19937& random) {
  return make_tables(V, [&](TokenId) {
    const Probs target_probs = random_row(V, random);
    return std::pair(target_probs, random_row(V, random));
  });
}

// A row without zeros.
inline Probs positive_row(int V, std::mt19937& random) {
  std::uniform_real_distribution<double> weight(0.05, 1);
  Probs row(static_cast<std::size_t>(V));
  for (double& prob : row) prob = weight(random);
  return normalised(row);
}

}  // namespace specdec::toy
