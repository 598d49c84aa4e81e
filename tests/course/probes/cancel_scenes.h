#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/course/probes/engine_scenes.h"

namespace specdec::course {

// An engine, and what each request hears of it, for the probe of stage 6.
class Hearing {
 public:
  Hearing(World& world, int max_batch) : engine_(models_of(world), options_for(max_batch)) {}

  void add(BatchRequest request) {
    heard_.emplace_back();
    engine_.add_request(std::move(request), [this](const Delivery& delivery) { hear(delivery); });
  }
  void cancel(RequestId id, const std::string& what) {
    if (id < std::ssize(heard_)) note(id, "cancel()");
    fact(fmt::format("whether it can be cancelled: {}", what), int(engine_.cancel(id)));
  }
  void step(const std::string& when) {
    engine_.step();
    fact(fmt::format("pages in use {}", when), engine_.target_pool().n_used());
  }
  void finish() {
    for (int step = 0; step < kMostSteps && !engine_.idle(); step++) engine_.step();
    for (std::size_t id = 0; id < heard_.size(); id++) {
      fact(fmt::format("what request {} hears", id), heard_[id]);
    }
    fact("pages leaked, of target and draft",
         Numbers{engine_.target_pool().n_used(), engine_.draft_pool().n_used()});
  }

  std::function<void()> during_delivery;  // of request 0, once

 private:
  static ServedModels models_of(World& world) {
    return {.target = world.target,
            .target_cache = world.target_cache,
            .drafter = world.drafter,
            .draft_cache = &world.draft_cache};
  }
  static EngineOptions options_for(int max_batch) {
    EngineOptions options = options_of(false);
    options.max_batch = max_batch;
    options.check_invariants = false;
    options.clock = [] { return 0.0; };
    return options;
  }
  void hear(const Delivery& delivery) {
    if (!delivery.tokens.empty() || !delivery.finished)
      note(delivery.id, fmt::format("{} tokens", delivery.tokens.size()));
    if (delivery.finished) note(delivery.id, finish_reason_name(delivery.finish_reason));
    if (delivery.id == 0 && during_delivery) std::exchange(during_delivery, {})();
  }
  void note(RequestId id, std::string_view what) {
    std::string& heard = heard_[std::size_t(id)];
    heard += fmt::format("{}{}", heard.empty() ? "" : ", ", what);
  }

  std::vector<std::string> heard_;
  BatchEngine engine_;
};

inline void cancels_in_every_phase(std::uint64_t seed) {
  World world(seed, 80, 80);
  Hearing requests(world, 2);
  requests.add(request_of(seed, 5, 30, 4));       // runs
  requests.add(request_of(seed + 1, 60, 30, 4));  // has a long prompt
  requests.add(request_of(seed + 2, 5, 30, 4));   // waits
  requests.add(request_of(seed + 3, 5, 12, 4));   // stays
  for (int step = 1; step <= 3; step++) requests.step(fmt::format("after step {}", step));
  requests.cancel(2, "a request that waits");
  requests.cancel(1, "a request whose prompt is being computed");
  requests.cancel(0, "a request that runs");
  requests.cancel(0, "a request that is cancelled already");
  requests.cancel(4, "a request that there never was");
  requests.step("after the step that drops three requests");
  requests.cancel(0, "a request that has ended");
  requests.finish();
}

// A callback cancels its own request, one that goes on, and one that ends in the same step.
inline void cancels_during_a_delivery(std::uint64_t seed) {
  World world(seed, 80, 80);
  Hearing requests(world, 3);
  requests.add(request_of(seed, 5, 30, 4));
  requests.add(request_of(seed + 1, 5, 30, 4));
  requests.add(request_of(seed + 2, 5, 1, 4));
  requests.during_delivery = [&requests] {
    requests.cancel(0, "the request that is being told");
    requests.cancel(1, "one that is told after it");
    requests.cancel(2, "one that has ended, and is told after it");
  };
  requests.step("after the prompts");
  requests.step("after the step in which a callback cancels");
  requests.step("after the next step");
  requests.finish();
}

}  // namespace specdec::course
