#pragma once
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "stages/06_batched_verification/serve.h"
#include "stages/programs/batch/batch_session.h"
#include "stages/programs/serve/answer_writer.h"
#include "stages/programs/serve/server_view.h"

namespace specdec {

// Requests that arrive over a socket. Another thread submits them; the thread that steps the engine
// calls everything else. They meet under one mutex, and only to hand over what is then another's:
// no lock is held during a step.
//
// Every request whose reader has left is cancelled before the next step. A reader that is slow is
// cut off by its Reply, so it never delays others.
class SocketInbox final : public Inbox {
 public:
  // max_queue: requests that may wait beside those that run. stop: once it is true, the inbox
  // cancels all requests and takes no more. REQUIRES: all outlive this object.
  SocketInbox(BatchSession& session, std::string model, int max_queue,
              const std::atomic<bool>& stop);

  // ---- For any thread
  // Throws Refusal: 429 if the queue is full, 503 if the server ends.
  void submit(CompletionRequest request, std::shared_ptr<Reply> reply);
  std::shared_ptr<const ServerView> view() const;
  double now() const { return session_.engine.now(); }

  // ---- For the thread that steps
  bool is_empty() const override;
  void add_arrived(BatchEngine& engine) override;
  void wait(const BatchEngine& engine) override;
  void after_step(const StepReport& report) override;
  // Runs the request without drafts and with them, alone, so that memory is warm and costs are
  // known. Call before serve().
  void warm_up(BatchRequest request);

 private:
  using Results = std::map<RequestId, RequestResult>;

  void add(BatchEngine& engine, std::unique_ptr<AnswerWriter> writer);
  void cancel_unwanted(BatchEngine& engine);
  void send_rounds(const StepReport& report, const Results& ended);
  Json round_json(const StepReport& report, const Results& ended, const StepReport::Part& part,
                  const AnswerWriter& writer) const;
  Json logprobs_json(const StepReport::Part& part, int first_row, const AnswerWriter& writer) const;
  void finish(RequestId id, const RequestResult& result);
  void publish();

  BatchSession& session_;
  const std::string model_;
  const int most_unfinished_;
  const std::atomic<bool>& stop_;

  mutable std::mutex mutex_;  // of these four
  std::condition_variable arrival_;
  std::vector<std::unique_ptr<AnswerWriter>> arrived_;
  int unfinished_ = 0;
  std::shared_ptr<const ServerView> view_;

  std::map<RequestId, std::unique_ptr<AnswerWriter>> writers_;  // of the requests in the engine
  Metrics metrics_;
  RateWatch rate_;
  CostWatch costs_;
  double published_ = -1;
};

}  // namespace specdec
