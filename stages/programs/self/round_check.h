#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/token_id.h"
#include "common/language_model.h"
#include "stages/09_self_drafting/self_model.h"

namespace specdec {

// A round of a drafter as PyTorch computed it (golden/goldens/README.md): what it drafts after a
// context, and the logits of these ids before each draft.
struct GoldenRound {
  std::string name;
  std::vector<TokenId> context, drafts;
  std::vector<std::int32_t> ids;
  std::vector<float> logits;  // [drafts, ids]
};

// All rounds of a file. Where it names no ids, the logits are of all tokens, or of those that the
// tensor d2t of the drafter's folder lists. Throws Error.
std::vector<GoldenRound> read_rounds(const std::filesystem::path& file,
                                     const std::filesystem::path& drafter, int vocab_size);

// What differs where a drafter's model drafts this round, or an empty text. target: the model whose
// rows or cache the drafter reads, as it watches it.
std::string check_round(const GoldenRound& golden, LanguageModel& target, LanguageModel& drafter,
                        RoundModel& round);

}  // namespace specdec
