#pragma once
#include "stages/06_batched_verification/batch_engine.h"

namespace specdec {

// Where requests come from: a file, made-up traffic, a socket.
class Inbox {
 public:
  virtual ~Inbox() = default;

  // Whether no request is left, and none will come.
  virtual bool is_empty() const = 0;
  // Adds the requests that have arrived by now. Refuses those that can never be served, and goes
  // on.
  virtual void add_arrived(BatchEngine& engine) = 0;
  // Waits until another one arrives. REQUIRES: !is_empty().
  virtual void wait(const BatchEngine& engine) = 0;
  virtual void after_step(const StepReport& report) = 0;
};

// Runs steps until the inbox is empty and every request has come to its end.
void serve(BatchEngine& engine, Inbox& inbox);

}  // namespace specdec
