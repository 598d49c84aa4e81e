#pragma once
#include "stages/06_batched_verification/batch_engine.h"
#include "tests/benchmarks/decoding.h"

namespace specdec {

// What an engine did while B requests had rounds and no prompt was computed.
struct BatchRun {
  EngineStats::BatchSize full;  // steps of B requests
  EngineStats::BatchSize all;   // of any number of requests
  std::int64_t tested = 0, accepted = 0;

  double tokens_per_second() const { return static_cast<double>(full.emitted) / full.seconds; }
};

// Stage 6's engine for up to `batch` requests at a time, on a target that it shares.
class BatchDecoding {
 public:
  // spec_length: the largest K. REQUIRES: models outlives this object.
  BatchDecoding(BenchmarkModels& models, const std::string& target, const std::string& draft,
                int batch, int spec_length);

  // Greedily continues the texts, over again until there are `batch` requests.
  BatchRun run(std::span<const BenchmarkText> texts, int spec_length);

 private:
  BenchmarkTarget& target_;
  DraftSetup& draft_;
  int batch_;
  std::unique_ptr<KvCache> cache_;
  Llama llama_;
  BatchEngine engine_;
};

}  // namespace specdec
