#pragma once

namespace specdec {

// What `main` returns. kCheckFailed is for --check and other checks.
enum ExitCode { kGood = 0, kCheckFailed = 1, kBadInput = 2 };

}  // namespace specdec
