#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json_value.h"
#include "stages/programs/speculation/round_record.h"

namespace specdec {

// The verdict of each node: of its last tested trial; if none was tested, of its first trial.
// at_once: the target's token is compared with all siblings at once, as in greedy decoding.
std::vector<std::string_view> node_verdicts(const Drafts& tree, const Round& round, bool at_once);

// Fills in a record's tree. REQUIRES: record.round and record.emitted are set.
void record_tree(const RoundEvidence& evidence, RoundRecord& record);

// A round's "tree" in JSON. REQUIRES: record.tree.
Json tree_json(const RoundRecord& record);

// The first lines of explain() for a round with a tree. REQUIRES: record.tree.
std::string explain_tree(const RoundRecord& record, int number, const Tokenizer* tokenizer,
                         bool colour);

}  // namespace specdec
