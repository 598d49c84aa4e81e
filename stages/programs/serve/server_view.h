#pragma once
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json_value.h"
#include "stages/06_batched_verification/batch_engine.h"
#include "stages/programs/serve/metrics.h"

namespace specdec {

// The medians of recent steps with a single round: what a draft step and a verification cost.
class CostWatch {
 public:
  explicit CostWatch(int spec_length) : spec_length_(spec_length) {}

  void add(const StepReport& report);
  double c() const;  // a draft step / a plain pass; NaN: unknown
  double v() const;  // a verification of K drafts / a plain pass; NaN: unknown

 private:
  static void keep(std::deque<double>& samples, double seconds);

  int spec_length_;
  std::deque<double> plain_, draft_step_, verification_;  // seconds
};

// Tokens per second over the last seconds.
class RateWatch {
 public:
  void add(double now, int tokens);
  double per_second(double now) const;

 private:
  struct Sample {
    double time = 0;
    std::int64_t tokens = 0;
  };
  std::deque<Sample> samples_;
};

// What other threads see of the engine: a copy, made between two steps.
struct ServerView {
  struct Request {
    std::string id;
    std::string_view state;
    int prompt_tokens = 0, tokens = 0, pages = 0;
    std::int64_t rounds = 0, drafted = 0, accepted = 0;
  };

  Metrics metrics;
  std::vector<Request> requests;  // not finished, by age
  RateWatch rate;
  double c = 0, v = 0;  // as of CostWatch
  int spec_length = 0;
};

// The requests of an engine. Their ids are those of the answers.
std::vector<ServerView::Request> requests_of(const BatchEngine& engine);

// The parts of GET /status that change. now: on the engine's clock.
Json to_json(const ServerView& view, double now);

}  // namespace specdec
