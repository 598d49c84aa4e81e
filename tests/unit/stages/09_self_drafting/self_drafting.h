#pragma once
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "common/checkpoint/safetensors_writer.h"
#include "stages/09_self_drafting/heads_model.h"
#include "stages/09_self_drafting/lookahead_model.h"
#include "stages/09_self_drafting/parallel_model.h"
#include "tests/embedded_batch.h"
#include "tests/fresh_cache.h"
#include "tests/test_support.h"
#include "tests/unit/stages/09_self_drafting/self_way.h"

// Models that draft for themselves, with random weights.
namespace specdec::batch {

inline std::vector<float> random_numbers(std::size_t n, float scale) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> numbers(n);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

// Small random blocks: each head proposes about what the target does, so that where a text repeats
// itself, some drafts are right.
inline LoadedHeads random_heads(int max_rows) {
  const std::size_t E = std::size_t(self_target().config().d_model);
  const std::vector<float> weights = random_numbers(kLevels * E * E, 0.02f),
                           bias = random_numbers(kLevels * E, 0.02f);
  const HostMatrix matrix{WeightType::kF32, std::as_bytes(std::span(weights)), kLevels * int(E),
                          int(E)};
  Backend& backend = self_target().backend();
  LoadedHeads loaded;
  loaded.says.resize(1);
  loaded.heads = std::make_unique<MedusaHeads>(backend, backend.load_matrix(std::span(&matrix, 1)),
                                               bias, max_rows);
  return loaded;
}

// The two matrices of a random Markov head, [V, rank] each, and its folder.
constexpr std::size_t kMarkovRank = 3;
inline std::vector<float> markov_before(int V) {
  return random_numbers(std::size_t(V) * kMarkovRank, 1);
}
inline std::vector<float> markov_after(int V) {
  std::vector<float> numbers = markov_before(V);
  std::ranges::reverse(numbers);
  return numbers;
}
inline void write_markov(const std::filesystem::path& folder, int V) {
  std::ofstream(folder / "config.json") << R"({"model_type": "markov", "rank": 3})";
  const std::vector<float> before = markov_before(V), after = markov_after(V);
  const std::vector<std::int64_t> shape = {V, std::int64_t(kMarkovRank)};
  const std::vector<NamedTensor> tensors = {
      {"before.weight", {DType::kF32, shape, std::as_bytes(std::span(before))}},
      {"after.weight", {DType::kF32, shape, std::as_bytes(std::span(after))}}};
  write_safetensors(folder / "model.safetensors", tensors);
}

// A target that drafts for itself in the way of this name.
class SelfDrafting {
 public:
  SelfDrafting(std::string_view way, const TreeKind& kind, int max_requests, int page_size,
               int pages)
      : llama(make_llama(self_target(), page_size, pages, max_requests,
                         kPositions + kind.room().verified)) {
    if (way == "parallel" || way == "markov") {
      add_parallel(kind, max_requests, page_size, pages, way == "markov");
    } else {
      way == "lookahead" ? add_lookahead(max_requests) : add_heads(max_requests, kind);
      drafter_ = std::make_unique<SelfDrafter>(*model, inner(kind, *model, max_requests));
    }
  }

  KvCache& target_cache() { return *llama->cache; }
  Drafter& drafter() { return *drafter_; }
  KvCache* draft_cache() { return draft ? draft->cache.get() : nullptr; }
  LanguageModel& target() { return rows ? *rows : static_cast<LanguageModel&>(llama->llama); }

  std::unique_ptr<CachedLlama> llama;
  std::unique_ptr<TargetRows> rows;    // null: no drafter reads them
  std::unique_ptr<SelfModel> model;    // null: the drafter has it
  std::unique_ptr<CachedLlama> draft;  // null: there is no draft model

 private:
  static std::unique_ptr<Drafter> inner(const TreeKind& kind, LanguageModel& of, int max_requests) {
    return kind.drafter(of, kPositions + kind.room().levels, self_target().config().vocab_size,
                        max_requests);
  }
  // The target's own weights draft, which were not trained with masks.
  void add_parallel(const TreeKind& kind, int max_requests, int page_size, int pages,
                    bool is_corrected) {
    constexpr TokenId kMask = 7;
    draft =
        make_llama(self_target(), page_size, pages, max_requests, kPositions + kind.room().nodes);
    auto parallel = std::make_unique<ParallelModel>(draft->llama, kMask, kLevels, max_requests,
                                                    kPositions + kLevels);
    std::unique_ptr<MarkovModel> corrected;
    if (is_corrected) {
      const TemporaryDirectory folder;
      write_markov(folder.path(), parallel->vocab_size());
      corrected = std::make_unique<MarkovModel>(
          *parallel, load_markov(folder.path(), parallel->vocab_size(), parallel->backend()),
          max_requests * kind.room().width);
    }
    LanguageModel& proposing = corrected ? static_cast<LanguageModel&>(*corrected) : *parallel;
    auto chooser = inner(kind, proposing, max_requests);
    drafter_ = std::make_unique<ParallelDrafter>(std::move(parallel), std::move(corrected),
                                                 std::move(chooser), max_requests);
  }
  void add_heads(int max_requests, const TreeKind& kind) {
    rows = std::make_unique<TargetRows>(llama->llama, std::vector<int>{Outputs::kAfterNorm},
                                        max_requests, kind.room().rows());
    auto heads = std::make_unique<HeadsModel>(self_target(), random_heads(max_requests),
                                              embedded().tokenizer.vocab_size(), max_requests);
    heads->read(*rows);
    model = std::move(heads);
  }
  void add_lookahead(int max_requests) {
    const auto n = std::size_t((kLevels - 1) * self_target().config().d_model);
    auto lookahead =
        std::make_unique<LookaheadModel>(self_target(), random_numbers(n, 0.1f), max_requests);
    lookahead->read(llama->llama);
    model = std::move(lookahead);
  }

  std::unique_ptr<Drafter> drafter_;
};

}  // namespace specdec::batch
