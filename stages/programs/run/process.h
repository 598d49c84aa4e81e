#pragma once

namespace specdec {

// Prepares the process for its surroundings. Call it before anything else. A closed standard stream
// is opened, so that no file gets its number. A reader that goes away, or a limit of file sizes,
// becomes an error of the write instead of a signal. A signal that ends the process first removes
// its partial files.
void guard_process();

}  // namespace specdec
