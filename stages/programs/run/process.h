#pragma once

namespace specdec {

// Prepares the process for whatever surrounds it, before anything else is done: a standard stream
// that is closed gets a place of its own, so that no file takes its number; a reader that goes
// away and a limit of file sizes become errors of the write, not signals; and a signal that ends
// the process removes its partial files first.
void guard_process();

}  // namespace specdec
