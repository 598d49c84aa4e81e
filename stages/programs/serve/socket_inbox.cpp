#include "stages/programs/serve/socket_inbox.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/error.h"
#include "common/base/streams.h"
#include "stages/programs/batch/request_fields.h"
#include "stages/programs/serve/shown_round.h"
#include "stages/programs/serve/token_logprobs.h"

namespace specdec {
namespace {

Refusal ends() { return Refusal(503, "the server ends"); }

}  // namespace

SocketInbox::SocketInbox(BatchSession& session, std::string model, int max_queue,
                         const std::atomic<bool>& stop)
    : session_(session),
      model_(std::move(model)),
      most_unfinished_(session.options.max_batch + max_queue),
      stop_(stop),
      costs_(session.sizes.spec_length) {
  const BatchEngine& engine = session.engine;
  metrics_.all_pages = engine.target_pool().n_pages();
  if (engine.draft_pool().cache() != nullptr) {
    metrics_.all_draft_pages = engine.draft_pool().n_pages();
  }
  publish();
}

void SocketInbox::submit(CompletionRequest request, std::shared_ptr<Reply> reply) {
  request.batch.arrival = now();
  auto writer = std::make_unique<AnswerWriter>(std::move(request), model_, std::move(reply));
  const std::lock_guard lock(mutex_);
  if (stop_) throw ends();
  if (unfinished_ >= most_unfinished_) {
    throw Refusal(
        429, fmt::format("{} requests are running or waiting, and no more may wait", unfinished_));
  }
  unfinished_++;
  arrived_.push_back(std::move(writer));
  arrival_.notify_one();
}

std::shared_ptr<const ServerView> SocketInbox::view() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

bool SocketInbox::is_empty() const {
  const std::lock_guard lock(mutex_);
  return stop_ && arrived_.empty();
}

void SocketInbox::wait(const BatchEngine&) {
  constexpr auto kLookAtStop = std::chrono::milliseconds(100);  // a signal wakes no one
  std::unique_lock lock(mutex_);
  arrival_.wait_for(lock, kLookAtStop, [this] { return !arrived_.empty() || stop_; });
}

void SocketInbox::add_arrived(BatchEngine& engine) {
  std::vector<std::unique_ptr<AnswerWriter>> arrived;
  {
    const std::lock_guard lock(mutex_);
    arrived.swap(arrived_);
  }
  for (auto& writer : arrived) add(engine, std::move(writer));
  cancel_unwanted(engine);
}

void SocketInbox::add(BatchEngine& engine, std::unique_ptr<AnswerWriter> writer) {
  try {
    if (stop_) throw ends();
    const RequestId id = engine.add_request(
        writer->take_batch(), [w = writer.get()](const Delivery& delivery) { w->note(delivery); });
    writer->begin();
    writers_.emplace(id, std::move(writer));
    return;
  } catch (const Refusal& refusal) {
    writer->refuse(refusal);
  } catch (const Error& error) {
    metrics_.refused++;
    writer->refuse(Refusal(400, with_field_names(error.what()), field_in(error.what())));
  }
  const std::lock_guard lock(mutex_);
  unfinished_--;
}

void SocketInbox::cancel_unwanted(BatchEngine& engine) {
  for (const auto& [id, writer] : writers_) {
    if (stop_ || writer->is_gone()) engine.cancel(id);
  }
}

void SocketInbox::after_step(const StepReport& report) {
  constexpr double kEvery = 0.05;  // seconds between views, unless a request ends
  if (session_.options.explain) say("{}\n", to_text(report));
  metrics_.count(report);
  rate_.add(report.ended, report.emitted());
  costs_.add(report);
  Results ended;
  for (const RequestId id : report.finished) {
    const auto [place, is_new] = ended.emplace(id, session_.engine.take_result(id));
    metrics_.count(place->second);
  }
  if (!ended.empty() || report.ended - published_ > kEvery) publish();
  send_rounds(report, ended);
  for (const auto& [id, result] : ended) finish(id, result);
}

void SocketInbox::send_rounds(const StepReport& report, const Results& ended) {
  int row = 0;  // of the pass
  for (const StepReport::Part& part : report.parts) {
    const auto found = writers_.find(part.id);
    if (found != writers_.end() && part.emitted > 0) {
      AnswerWriter& writer = *found->second;
      Json round = writer.wants_rounds() ? round_json(report, ended, part, writer) : Json();
      Json logprobs = writer.wants_logprobs() ? logprobs_json(part, row, writer) : Json();
      writer.send(std::move(round), std::move(logprobs));
    }
    if (part.is_round()) row += part.rows;
  }
}

// The engine's drafts are those of the step's rounds, the oldest request's first. A round whose
// drafting failed is among them, but not in the report.
Json SocketInbox::round_json(const StepReport& report, const Results& ended,
                             const StepReport::Part& part, const AnswerWriter& writer) const {
  int place = 0;
  for (const StepReport::Part& other : report.parts) {
    if (other.is_round() && other.id < part.id) place++;
  }
  for (const auto& [id, result] : ended) {
    const bool failed = result.finish_reason == FinishReason::kError;
    const bool reported = std::ranges::count(report.parts, id, &StepReport::Part::id) > 0;
    if (failed && !reported && id < part.id) place++;
  }
  const bool is_tree = session_.options.stage >= kFirstTreeStage;
  return shown_round(part.round, session_.engine.rounds().drafts(place), writer.new_tokens(),
                     is_tree, *session_.files.tokenizer);
}

// first_row: of the request, in the pass's logits.
Json SocketInbox::logprobs_json(const StepReport::Part& part, int first_row,
                                const AnswerWriter& writer) const {
  Backend& backend = session_.engine.models().target.backend();
  std::vector<float> logits;
  for (int i = 0; i < part.emitted; i++) {
    const int row = first_row + part.round.row_of(i);
    const auto values = to_host(backend, session_.engine.rounds().pass().logits(row, 1));
    logits.insert(logits.end(), values.begin(), values.end());
  }
  return token_logprobs(writer.new_tokens(), logits, session_.files.token_limit,
                        *writer.wants_logprobs(), writer.is_chat(), *session_.files.tokenizer);
}

void SocketInbox::finish(RequestId id, const RequestResult& result) {
  const auto found = writers_.find(id);
  if (found == writers_.end()) return;
  found->second->finish(result);
  writers_.erase(found);
  const std::lock_guard lock(mutex_);
  unfinished_--;
}

void SocketInbox::publish() {
  published_ = session_.engine.now();
  auto view = std::make_shared<ServerView>(ServerView{.metrics = metrics_,
                                                      .requests = requests_of(session_.engine),
                                                      .rate = rate_,
                                                      .c = costs_.c(),
                                                      .v = costs_.v(),
                                                      .spec_length = session_.sizes.spec_length});
  const std::lock_guard lock(mutex_);
  view_ = std::move(view);
}

// Runs requests of one engine alone, and forgets their results.
void SocketInbox::warm_up(BatchRequest request) {
  BatchEngine& engine = session_.engine;
  for (const int K : {0, request.spec_length}) {
    BatchRequest next = request;
    next.spec_length = K;
    if (K == 0) next.make_policy = {};
    const RequestId id = engine.add_request(std::move(next));
    while (!engine.has_result(id)) costs_.add(engine.step());
    engine.take_result(id);
  }
  engine.forget_prefixes();
  publish();
}

}  // namespace specdec
