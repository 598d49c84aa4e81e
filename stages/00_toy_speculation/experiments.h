#pragma once

// What the program prints with --drafts, --stops and --overlap: each method, and its mistakes.
namespace specdec::toy {

// How often a draft is kept after "the", with 1 to `drafts` drafts for the position, and
// rejection sampling as a loop. REQUIRES: drafts >= 1.
void print_several_drafts(int drafts);

// Rounds of at most 3 drafts that stop drafting by a rule.
void print_stopping_rules();

// A function that starts on a guess of another function's result.
void print_overlap();

}  // namespace specdec::toy
