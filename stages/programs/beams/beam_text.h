#pragma once
#include <cstdint>
#include <string>

#include "common/tokenizer/tokenizer.h"
#include "stages/10_beam_search/beam_round.h"

namespace specdec {

// What --explain prints of a round: for each step the beams, which beam each continues, which were
// not drafted, and why the other beams died. number: of the round, from 1. tokenizer: null if there
// is none.
std::string explain(const BeamRound& round, std::int64_t number, const Tokenizer* tokenizer);

}  // namespace specdec
