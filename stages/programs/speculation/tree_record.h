#pragma once
#include <string>

#include "common/base/json_value.h"
#include "stages/programs/speculation/round_record.h"

namespace specdec {

// Fills in a record's tree and its last token. REQUIRES: record.round and record.emitted are set.
void record_tree(const RoundEvidence& evidence, RoundRecord& record);

// Adds "tree" and "last" to a round's JSON. REQUIRES: record.tree.
void add_tree_json(const RoundRecord& record, Json& json);

// explain() for a round with a tree. REQUIRES: record.tree.
std::string explain_tree(const RoundRecord& record, int number, const Tokenizer* tokenizer,
                         bool colour);

}  // namespace specdec
