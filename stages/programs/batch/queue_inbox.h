#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "stages/06_batched_verification/serve.h"
#include "stages/programs/batch/batch_report.h"

namespace specdec {

// Requests that are all known beforehand, with the times at which they arrive.
class QueueInbox final : public Inbox {
 public:
  // REQUIRES: both outlive this object.
  QueueInbox(std::span<const QueuedRequest> queue, BatchReport& report);

  bool is_empty() const override { return next_ == by_arrival_.size(); }
  void add_arrived(BatchEngine& engine) override;
  void wait(const BatchEngine& engine) override;
  void after_step(const StepReport& report) override { report_.after_step(report); }

 private:
  std::span<const QueuedRequest> queue_;
  BatchReport& report_;
  std::vector<std::size_t> by_arrival_;  // places in the queue
  std::size_t next_ = 0;
};

}  // namespace specdec
