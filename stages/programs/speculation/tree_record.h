#pragma once
#include <string>

#include "common/base/json_value.h"
#include "stages/programs/speculation/round_record.h"

namespace specdec {

// Fills in a record's tree. REQUIRES: record.round and record.emitted are set.
void record_tree(const RoundEvidence& evidence, RoundRecord& record);

// A round's "tree" in JSON. REQUIRES: record.tree.
Json tree_json(const RoundRecord& record);

// The first lines of explain() for a round with a tree. REQUIRES: record.tree.
std::string explain_tree(const RoundRecord& record, int number, const Tokenizer* tokenizer,
                         bool colour);

}  // namespace specdec
