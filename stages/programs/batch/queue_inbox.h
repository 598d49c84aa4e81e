#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "stages/06_batched_verification/serve.h"
#include "stages/programs/batch/batch_report.h"
#include "stages/programs/run/request.h"

namespace specdec {

// The request of a command line or of a line of --requests.
// Throws Error as read_request() and check_speculation_options().
BatchRequest to_batch_request(const ModelFiles& target, const RunOptions& options);

using MakeBatchRequest =
    std::function<BatchRequest(const ModelFiles& target, const RunOptions& options)>;

// Requests that are known in advance, with their arrival times: the lines of --requests, a
// --workload, or a single prompt; in the order of the input.
class QueueInbox final : public Inbox {
 public:
  // Throws Error if the input cannot be read. A line whose request cannot be run stays in the list,
  // with its error.
  QueueInbox(const RunOptions& options, const ModelFiles& target,
             const MakeBatchRequest& make = to_batch_request);

  const std::vector<BatchRequest>& requests() const { return requests_; }
  // Call before serve(). REQUIRES: the report outlives this object.
  void report_to(BatchReport& report) { report_ = &report; }

  bool is_empty() const override { return next_ == by_arrival_.size(); }
  void add_arrived(BatchEngine& engine) override;
  void wait(const BatchEngine& engine) override;
  void after_step(const StepReport& step) override { report_->after_step(step); }

 private:
  std::vector<BatchRequest> requests_;
  std::vector<std::size_t> by_arrival_;  // indices of requests_, the first arrival first
  std::size_t next_ = 0;
  BatchReport* report_ = nullptr;
};

}  // namespace specdec
