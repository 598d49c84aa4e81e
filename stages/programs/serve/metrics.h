#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/speculation/round.h"
#include "stages/06_batched_verification/batch_request.h"
#include "stages/06_batched_verification/step_report.h"

namespace specdec {

// A histogram of Prometheus: how many values are at most each bound.
class Histogram {
 public:
  // REQUIRES: bounds ascend, and outlive this object.
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1) {}

  void add(double value);  // NaN: it has not happened, and does not count
  // The lines of one metric. labels: "a=\"b\"".
  std::string to_text(std::string_view name, std::string_view labels) const;

 private:
  std::span<const double> bounds_;
  std::vector<std::int64_t> counts_;  // [bounds + 1] of values above the bound before
  double sum_ = 0;
};

// What a server counts from its start on, and what is true now.
class Metrics {
 public:
  Metrics();

  void count(const StepReport& report);
  void count(const RequestResult& result);

  // Sums over all requests.
  std::int64_t rounds = 0, drafted_rounds = 0, drafted = 0, tested = 0, accepted = 0;
  std::int64_t tokens = 0, prompt_tokens = 0, prefix_tokens = 0, passes = 0, preemptions = 0;
  std::vector<std::int64_t> accepted_at;         // by position in the round
  std::map<std::string, std::int64_t> finished;  // requests, by the reason of their end
  std::int64_t refused = 0;                      // by the engine
  // Now.
  int running = 0, waiting = 0, prefilling = 0;
  int pages = 0, all_pages = 0, draft_pages = 0, all_draft_pages = 0;

  std::int64_t requests() const;  // that are finished

  // Prometheus's text format, with the names that vLLM uses after its own prefix.
  std::string to_text(std::string_view model) const;

 private:
  Histogram first_token_, per_token_, queue_, whole_, batch_, step_tokens_;
};

}  // namespace specdec
