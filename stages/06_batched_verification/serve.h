#pragma once
#include "stages/06_batched_verification/batch_engine.h"

namespace specdec {

// A source of requests: a file, a synthetic workload, a socket.
class Inbox {
 public:
  virtual ~Inbox() = default;

  // Whether every request has been added and no more will arrive.
  virtual bool is_empty() const = 0;
  // Adds the requests that have arrived by now. Refuses those that can never be served, without
  // throwing.
  virtual void add_arrived(BatchEngine& engine) = 0;
  // Waits until the next request arrives. REQUIRES: !is_empty().
  virtual void wait(const BatchEngine& engine) = 0;
  virtual void after_step(const StepReport& report) = 0;
};

// Runs steps until the inbox is empty and every request is finished.
void serve(BatchEngine& engine, Inbox& inbox);

}  // namespace specdec
