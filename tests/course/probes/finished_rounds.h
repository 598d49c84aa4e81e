#pragma once
#include <cstdint>

#include "common/sampling/random_source.h"
#include "common/speculation/round.h"

// How rounds may end, for the probes of policies.
namespace specdec::course {

constexpr Round rejected_after(int accepted, int drafted) {
  return {.drafted = drafted, .accepted = accepted, .end = RoundEnd::kRejected};
}
constexpr Round all_accepted(int drafted) {
  return {.drafted = drafted, .accepted = drafted, .end = RoundEnd::kAllAccepted};
}
constexpr Round stopped_after(int accepted, int drafted) {
  return {.drafted = drafted, .accepted = accepted, .end = RoundEnd::kStopped};
}
constexpr Round plain_step() { return all_accepted(0); }

// A round of K drafts in which each test succeeds with probability alpha.
inline Round random_round(std::uint64_t seed, int number, int K, double alpha) {
  for (int i = 0; i < K; i++) {
    if (uniform(seed, number, Purpose::kAccept, i) >= alpha) return rejected_after(i, K);
  }
  return all_accepted(K);
}

}  // namespace specdec::course
