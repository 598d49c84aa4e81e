#pragma once
#include <string>

#include "common/tokenizer/tokenizer.h"
#include "stages/programs/trees/tree_record.h"

namespace specdec {

// A few lines for people: the tree with what became of each node (accepted, rejected, never
// reached), the token after the path, and both caches. tokenizer: null where there is none.
std::string explain(const TreeRecord& record, int number, const Tokenizer* tokenizer, bool colour);

}  // namespace specdec
