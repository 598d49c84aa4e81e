#pragma once
#include <string>

namespace specdec {

// Whether --by-turns is among the arguments; it is taken out of them.
bool take_by_turns(int& argc, char** argv);

// Runs the registered benchmarks as Google Benchmark's options say. By turns, it prints a line of
// JSON, {"backend": ...}, and then runs what each line of the standard input says: a regular
// expression that matches the name of one benchmark. It answers with a line of JSON: the name and
// the counters. So whoever asks decides the order, and can come back to a benchmark in every round.
// Returns the exit code: 1 where a benchmark failed, or where none has that name.
int run_registered(bool by_turns, const std::string& backend);

}  // namespace specdec
