#pragma once
#include <string>

#include "stages/03_paged_kv_cache/paged_kv_cache.h"

namespace specdec {

// The pool of pages as text of at most 80 columns, for --explain: one cell per page, with its owner
// and how full it is, then every sequence's page table, then a legend. UTF-8, lines end in '\n'.
// colour: with ANSI escapes, one colour per sequence.
std::string pool_picture(const PagedKvCache& cache, bool colour = false);

}  // namespace specdec
