#pragma once
#include <string>

#include "common/base/json_value.h"
#include "stages/programs/speculation/round_record.h"

namespace specdec {

// The part of a round's record that is about its tree, and its last token.
void record_tree(const RoundEvidence& evidence, RoundRecord& record);

// The members of a round's JSON that are about its tree.
void add_tree_json(const RoundRecord& record, Json& json);

// The lines of explain(). REQUIRES: there is a tree.
std::string explain_tree(const RoundRecord& record, int number, const Tokenizer* tokenizer,
                         bool colour);

}  // namespace specdec
