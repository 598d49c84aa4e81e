#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "stages/programs/run/options.h"

namespace specdec {

// Reads requests from JSON Lines, in the order of the lines; "-" is stdin. What comes out is as if
// each had a command line of its own. A line is an object
// whose fields are the options that are declared to be per request (run/options.cpp), with
// underscores: {"prompt": "Once", "top_p": 0.9}. It has one of
//   prompt        a text
//   prompt_ids    a list of token ids
//   chat          the user's message (with system, or without), or a list of messages:
//                 [{"role": "user", "content": "Hello!"}]
// and perhaps
//   id            a text or a whole number, different in every line; without it, the number of the
//                 request in the file, from 0
//   arrival       seconds after the start, 0 by default
//   stop          a text or a list of texts
// and the others with the values of the options: {"max_new_tokens": 40, "ignore_eos": true}. What
// it does not say, or says to be null, is as in `defaults`. Blank lines are skipped.
//
// REQUIRES: the defaults have no prompt.
// Throws Error, naming file, line and field: what is no such object; a field that is unknown, or
// belongs to the whole run; a value of a wrong type, or one that the command line would refuse; no
// prompt, or several; an id that occurs twice. Names the file where it has no request at all, or
// more than 100,000 requests or 256 MB.
std::vector<RunOptions> read_requests(const std::string& path, const RunOptions& defaults);

// The same for a text in memory; `name` stands for the file in messages.
std::vector<RunOptions> parse_requests(std::string_view text, const std::string& name,
                                       const RunOptions& defaults);

}  // namespace specdec
