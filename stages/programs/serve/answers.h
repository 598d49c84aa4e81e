#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/json_value.h"
#include "common/generation.h"
#include "stages/06_batched_verification/batch_request.h"

namespace specdec {

// The protocol's objects: whole answers, and the chunks of a stream.

// What all chunks of an answer have in common.
struct AnswerHead {
  std::string id, model;
  std::int64_t created = 0;  // by seconds_since_1970()
  bool is_chat = false;
};
std::int64_t seconds_since_1970();

// {"data": ...} of server-sent events: the object, and a blank line.
std::string to_event(const Json& chunk);
inline constexpr std::string_view kLastEvent = "data: [DONE]\n\n";

// A chunk with a new part of the text. logprobs: of its tokens, or null.
Json text_chunk(const AnswerHead& head, std::string_view text, Json logprobs = nullptr);
// The first chunk of a chat, which says whose turn it is.
Json role_chunk(const AnswerHead& head);
// The chunk that says why the text ended.
Json last_chunk(const AnswerHead& head, FinishReason reason);
// The chunk after it, without choices, for clients that ask for the counts.
Json usage_chunk(const AnswerHead& head, const RequestResult& result, std::uint64_t seed);

Json whole_answer(const AnswerHead& head, const RequestResult& result, Json logprobs,
                  std::uint64_t seed);

// What speculation did for the request, and its times.
Json speculation_json(const RequestStats& stats, std::uint64_t seed);

}  // namespace specdec
