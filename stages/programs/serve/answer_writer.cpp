#include "stages/programs/serve/answer_writer.h"

namespace specdec {
namespace {

// Appends each list of `more` to the list of that name.
void append(Json& all, const Json& more) {
  if (more.is_null()) return;
  if (all.is_null()) all = Json::object();
  for (const auto& [name, list] : more.items()) {
    for (const Json& value : list) all[name].push_back(value);
  }
}

Refusal failure_of(const RequestResult& result) {
  if (result.finish_reason == FinishReason::kError) return Refusal(500, result.error);
  return Refusal(503, "the server is shutting down and cancelled the request");
}

}  // namespace

AnswerWriter::AnswerWriter(CompletionRequest request, std::string model,
                           std::shared_ptr<Reply> reply)
    : request_(std::move(request)),
      head_{.id = request_.batch.id,
            .model = std::move(model),
            .created = seconds_since_1970(),
            .is_chat = request_.is_chat},
      seed_(request_.batch.seed),
      reply_(std::move(reply)) {}

void AnswerWriter::begin() {
  if (!request_.stream) return;
  HttpAnswer head{.type = "text/event-stream", .headers = {{"Cache-Control", "no-cache"}}};
  if (request_.is_chat) head.body = to_event(role_chunk(head_));
  reply_->begin(std::move(head));
}

void AnswerWriter::note(const Delivery& delivery) {
  tokens_.assign(delivery.tokens.begin(), delivery.tokens.end());
  text_ = delivery.text;
}

void AnswerWriter::send(Json round, Json logprobs) {
  if (!request_.stream) {
    if (!round.is_null()) rounds_.push_back(std::move(round));
    append(logprobs_, logprobs);
  } else if (!text_.empty() || request_.rounds || request_.logprobs) {
    Json chunk = text_chunk(head_, text_, std::move(logprobs));
    if (!round.is_null()) chunk["rounds"] = Json::array({std::move(round)});
    reply_->write(to_event(chunk));
  }
  tokens_.clear();
  text_.clear();
}

void AnswerWriter::finish(const RequestResult& result) {
  const bool good =
      result.finish_reason == FinishReason::kStop || result.finish_reason == FinishReason::kLength;
  if (!request_.stream) {
    if (!good) return refuse(failure_of(result));
    Json answer = whole_answer(head_, result, std::move(logprobs_), seed_);
    if (request_.rounds) answer["rounds"] = std::move(rounds_);
    return reply_->answer({.body = answer.dump() + "\n"});
  }
  if (!good) {
    reply_->write(to_event(error_json(failure_of(result))));
  } else {
    if (!text_.empty()) send(nullptr, nullptr);  // what was held back until the end
    reply_->write(to_event(last_chunk(head_, result.finish_reason)));
    if (request_.include_usage) reply_->write(to_event(usage_chunk(head_, result, seed_)));
  }
  reply_->write(kLastEvent);
  reply_->end();
}

}  // namespace specdec
