#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "stages/programs/run/options.h"

namespace specdec {

// Reads requests from JSON Lines, in the order of the lines; "-" is stdin. Returns for each request
// the options of an equivalent command line. The fields of a line are the options that are declared
// per request (run/option_groups.h), with underscores: {"prompt": "Once", "top_p": 0.9}. It has one
// of
//   prompt        a text
//   prompt_ids    a list of token ids
//   chat          the user's message (with system, or without), or a list of messages:
//                 [{"role": "user", "content": "Hello!"}]
// and optionally
//   id            a text or a whole number, different in every line; by default, the number of the
//                 request in the file, from 0
//   arrival       seconds after the start, 0 by default
//   stop          a text or a list of texts
// and any other option with its value: {"max_new_tokens": 40, "ignore_eos": true}. A field that is
// missing or null is as in `defaults`. Blank lines are skipped.
//
// REQUIRES: the defaults have no prompt.
// Throws Error, naming file, line and field, for a line that is not such an object; a field that is
// unknown, or belongs to the whole run; a value of a wrong type, or one that the command line would
// refuse; no prompt, or several; an id that occurs twice. Throws Error, naming the file, if it has
// no request, or more than 100,000 requests or 256 MB.
std::vector<RunOptions> read_requests(const std::string& path, const RunOptions& defaults);

// The same for a text in memory. name: the name of the file in messages.
std::vector<RunOptions> parse_requests(std::string_view text, const std::string& name,
                                       const RunOptions& defaults);

}  // namespace specdec
