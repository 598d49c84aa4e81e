#include "stages/06_batched_verification/serve.h"

namespace specdec {

// [snippet serve]
void serve(BatchEngine& engine, Inbox& inbox) {
  while (!inbox.is_empty() || !engine.idle()) {
    inbox.add_arrived(engine);
    if (!engine.idle()) {
      inbox.after_step(engine.step());  // a round for every running request
    } else if (!inbox.is_empty()) {
      inbox.wait(engine);
    }
  }
}
// [end snippet serve]

}  // namespace specdec
