#include "stages/programs/batch/queue_inbox.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "common/base/error.h"
#include "stages/programs/batch/request_list.h"
#include "stages/programs/batch/workload.h"
#include "stages/programs/run/draft_length.h"
#include "stages/programs/sampling/speculation_options.h"

namespace specdec {
namespace {

std::vector<RunOptions> read_queue(const RunOptions& options, const ModelFiles& target) {
  if (!options.requests.empty()) return read_requests(options.requests, options);
  const bool has_prompt = options.has_prompt || options.is_chat() || !options.prompt_ids.empty();
  if (!has_prompt) {
    return make_workload(options.workload.empty() ? kDefaultWorkload : options.workload, options,
                         target);
  }
  RunOptions request = options;
  request.id = "0";
  request.where = "the prompt";
  return {std::move(request)};
}

}  // namespace

BatchRequest to_batch_request(const ModelFiles& target, const RunOptions& options) {
  BatchRequest request;
  request.generation = read_request(target, options);
  request.speculation = speculation_options(options);
  check_speculation_options(request.speculation);
  request.seed = options.seed;
  request.spec_length = spec_length_of(options);
  request.context_limit = context_limit(target, options);
  return request;
}

QueueInbox::QueueInbox(const RunOptions& options, const ModelFiles& target,
                       const MakeBatchRequest& make) {
  for (const RunOptions& line : read_queue(options, target)) {
    BatchRequest request;
    try {
      request = make(target, line);
    } catch (const Error& error) {
      if (options.requests.empty()) throw;  // the command line itself is wrong
      request.error = error.what();
    }
    request.id = line.id;
    request.where = line.where;
    request.arrival = line.arrival;
    request.is_chat = line.is_chat();
    requests_.push_back(std::move(request));
  }
  by_arrival_.resize(requests_.size());
  std::iota(by_arrival_.begin(), by_arrival_.end(), std::size_t{0});
  std::ranges::stable_sort(by_arrival_, {}, [&](std::size_t i) { return requests_[i].arrival; });
}

void QueueInbox::add_arrived(BatchEngine& engine) {
  for (; !is_empty(); ++next_) {
    const std::size_t place = by_arrival_[next_];
    if (requests_[place].arrival > engine.now()) return;
    try {
      report_->added(place, engine.add_request(requests_[place], report_->delivery(place)));
    } catch (const Error& error) {
      report_->refused(place, error.what());
    }
  }
}

void QueueInbox::wait(const BatchEngine& engine) {
  const double arrival = requests_[by_arrival_[next_]].arrival;
  std::this_thread::sleep_for(std::chrono::duration<double>(arrival - engine.now()));
}

}  // namespace specdec
