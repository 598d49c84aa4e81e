#include "stages/programs/serve/answers.h"

#include <chrono>
#include <utility>

#include "kernels/int_size.h"
#include "stages/programs/batch/batch_json.h"
#include "stages/programs/show/report.h"

namespace specdec {
namespace {

Json object_of(const AnswerHead& head, bool of_stream) {
  const std::string_view name = !head.is_chat ? "text_completion"
                                : of_stream   ? "chat.completion.chunk"
                                              : "chat.completion";
  return {{"id", head.id}, {"object", name}, {"created", head.created}, {"model", head.model}};
}

Json reason_or_null(std::optional<FinishReason> reason) {
  return reason ? Json(finish_reason_name(*reason)) : Json(nullptr);
}

// The only element of "choices".
Json choice(std::string_view field, Json content, Json logprobs,
            std::optional<FinishReason> reason) {
  Json choice = {
      {"index", 0}, {"logprobs", std::move(logprobs)}, {"finish_reason", reason_or_null(reason)}};
  choice[field] = std::move(content);
  return Json::array({std::move(choice)});
}

Json chunk(const AnswerHead& head, Json choices) {
  Json chunk = object_of(head, true);
  chunk["choices"] = std::move(choices);
  return chunk;
}

Json usage_json(const RequestResult& result) {
  const int tokens = int_size(result.tokens);
  return {{"prompt_tokens", result.prompt_tokens},
          {"completion_tokens", tokens},
          {"total_tokens", result.prompt_tokens + tokens},
          {"prompt_tokens_details", {{"cached_tokens", result.stats.prefix_tokens}}}};
}

}  // namespace

std::int64_t seconds_since_1970() {
  using namespace std::chrono;
  return duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
}

std::string to_event(const Json& chunk) { return "data: " + chunk.dump() + "\n\n"; }

Json text_chunk(const AnswerHead& head, std::string_view text, Json logprobs) {
  if (!head.is_chat) return chunk(head, choice("text", text, std::move(logprobs), {}));
  Json delta = Json::object();
  delta["content"] = text;
  return chunk(head, choice("delta", std::move(delta), std::move(logprobs), {}));
}

Json role_chunk(const AnswerHead& head) {
  Json delta = Json::object();
  delta["role"] = "assistant";
  delta["content"] = "";
  return chunk(head, choice("delta", std::move(delta), nullptr, {}));
}

Json last_chunk(const AnswerHead& head, FinishReason reason) {
  if (!head.is_chat) return chunk(head, choice("text", "", nullptr, reason));
  return chunk(head, choice("delta", Json::object(), nullptr, reason));
}

Json usage_chunk(const AnswerHead& head, const RequestResult& result, std::uint64_t seed) {
  Json last = chunk(head, Json::array());
  last["usage"] = usage_json(result);
  last["speculation"] = speculation_json(result.stats, seed);
  return last;
}

Json whole_answer(const AnswerHead& head, const RequestResult& result, Json logprobs,
                  std::uint64_t seed) {
  Json answer = object_of(head, false);
  Json message = Json::object();
  message["role"] = "assistant";
  message["content"] = result.text;
  answer["choices"] = choice(head.is_chat ? "message" : "text",
                             head.is_chat ? std::move(message) : Json(result.text),
                             std::move(logprobs), result.finish_reason);
  answer["usage"] = usage_json(result);
  answer["speculation"] = speculation_json(result.stats, seed);
  return answer;
}

Json speculation_json(const RequestStats& stats, std::uint64_t seed) {
  const Json all = to_json(stats);
  Json some = Json::object();
  for (const char* name : {"rounds", "drafted", "accepted", "acceptance_rate", "alpha",
                           "accepted_per_position", "time_to_first_token", "tokens_per_second"}) {
    some[name] = all.at(name);
  }
  some["tokens_per_pass"] = number_or_null(share(static_cast<double>(stats.run.emitted),
                                                 static_cast<double>(stats.run.target_forwards)));
  some["seed"] = seed;
  return some;
}

}  // namespace specdec
