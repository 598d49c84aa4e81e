#pragma once
#include <memory>
#include <string>
#include <vector>

#include "stages/programs/serve/answers.h"
#include "stages/programs/serve/completion_request.h"
#include "stages/programs/serve/refusal.h"
#include "stages/programs/serve/reply.h"

namespace specdec {

// Writes the answer to one request while an engine serves it: step by step into a stream, or at the
// end. It belongs to the thread that steps the engine.
class AnswerWriter {
 public:
  AnswerWriter(CompletionRequest request, std::string model, std::shared_ptr<Reply> reply);

  BatchRequest take_batch() { return std::move(request_.batch); }
  bool is_chat() const { return head_.is_chat; }
  bool wants_rounds() const { return request_.rounds; }
  const std::optional<int>& wants_logprobs() const { return request_.logprobs; }
  bool is_gone() const { return reply_->is_gone(); }

  // The engine has the request, or refused it.
  void begin();
  void refuse(const Refusal& refusal) { reply_->answer(to_answer(refusal)); }

  // The engine's callback, in a step: keeps what is new.
  void note(const Delivery& delivery);
  const std::vector<TokenId>& new_tokens() const { return tokens_; }
  // After the step: round and logprobs belong to the new tokens, or are null.
  void send(Json round, Json logprobs);
  void finish(const RequestResult& result);

 private:
  CompletionRequest request_;
  AnswerHead head_;
  std::uint64_t seed_;
  std::shared_ptr<Reply> reply_;
  std::vector<TokenId> tokens_;                       // of this step
  std::string text_;                                  // of this step
  Json rounds_ = Json::array(), logprobs_ = nullptr;  // of all steps, without a stream
};

}  // namespace specdec
