#pragma once
#include <cstdint>

#include "common/base/token_id.h"

namespace specdec {

// What a draw decides. The numbers are part of a draw's key, and golden files record them.
enum class Purpose : std::uint32_t {
  kDraft = 0,     // the draft model's token
  kAccept = 1,    // whether that token is accepted
  kResample = 2,  // the token that replaces a rejected one
  kTarget = 3,    // the target model's own token: plain sampling, and the bonus
  kRace = 4,      // one draw for every token of the vocabulary, shared by both models
};

// The random number in [0, 1) that belongs to a seed, the absolute position of the token that it
// decides, and a purpose: a multiple of 2^-53, with all the bits that a float64 in [0, 1) can
// hold. Fewer bits would do for most decisions, but not for unlikely tokens. With 24 bits, a first
// token of probability 1e-28 would be drawn once in 2^24 times (where u = 0), and a token of
// probability 1e-7 would win 0.73 of its share of races.
//
// There is no stream and no state: the arguments determine the number. So a request's draws do not
// depend on their order, on the batch or on the machine.
//
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). Key: the
// seed, low word first. Counter: (position, purpose, index, 0). The upper 27 bits of the first word
// and the upper 26 of the second are the number. `index` is the token id for kRace; otherwise it
// tells several draws for one position and purpose apart; most have only number 0.
// REQUIRES: position >= 0, index >= 0.
double uniform(std::uint64_t seed, int position, Purpose purpose, TokenId index = 0);

}  // namespace specdec
