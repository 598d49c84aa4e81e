#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "common/embedded_models.h"
#include "common/llama.h"
#include "kernels/cpu/cpu_backend.h"
#include "stages/02_contiguous_kv_cache/contiguous_kv_cache.h"
#include "stages/03_paged_kv_cache/paged_kv_cache.h"
#include "stages/08_token_trees/tree_drafter.h"
#include "tests/course/probes/sampling_scenes.h"
#include "tests/unit/common/memory_backend.h"

// Trees, and models that are fed with them, for the probe of stage 8.
namespace specdec::course {

using Numbers = std::vector<int>;

// ---- Trees of drafts

// The drafts of sitting 8.1, as numbers: to York . / to the barn / to York and / out to the.
inline std::vector<Tokens> drafts_of_the_book() {
  return {{1, 3, 5}, {1, 4, 6}, {1, 3, 7}, {2, 1, 4}};
}

inline std::vector<Tokens> random_drafts(std::uint64_t seed, int count, int length, int V) {
  std::vector<Tokens> drafts;
  for (int i = 0; i < count; i++) {
    drafts.push_back(tokens_of(seed + 100 * std::uint64_t(i), length, V));
  }
  return drafts;
}

inline Drafts roomy_tree(int V) {
  return Drafts({.levels = 8, .nodes = 64, .trials = 64, .probs = 64, .verified = 64}, V);
}

// Lets a tree grow level by level, and parent by parent, as drafters do. Draft d's tokens have the
// distribution 10 * level + d, and a probability that belongs to the token. Returns what add_trial
// said.
inline Numbers grow(Drafts& tree, const std::vector<Tokens>& drafts) {
  Numbers said;
  Numbers at(drafts.size(), Drafts::kRoot);
  for (std::size_t level = 0; level < drafts.front().size(); level++) {
    const Numbers before = at;
    for (int parent = Drafts::kRoot; parent < 64; parent++) {
      for (std::size_t d = 0; d < drafts.size(); d++) {
        if (before[d] != parent) continue;
        const TokenId token = drafts[d][level];
        at[d] = add_trial(tree, parent, token, int(10 * level + d), 1.0 / (2 + token));
        said.push_back(at[d]);
      }
    }
  }
  return said;
}

// ---- Passes over trees

// Computes nothing, and remembers which slots the rows of the last pass would have read.
class TailWatcher final : public MemoryBackend {
 public:
  struct Row {
    int position = 0;
    int first = -1;  // position of the tail; -1: it has none
    Numbers tail;    // slots
  };
  std::vector<Row> rows;

  void embed(const WeightMatrix&, const std::int32_t*, DeviceRows) override {}
  void gather_rows(ConstDeviceRows, const std::int32_t*, DeviceRows) override {}
  void rms_norm(ConstDeviceRows, const float*, float, DeviceRows) override {}
  void matmul(ConstDeviceRows, const WeightMatrix&, DeviceRows) override {}
  void add(DeviceRows, ConstDeviceRows) override {}
  void silu_mul(ConstDeviceRows, ConstDeviceRows, DeviceRows) override {}
  void rope_angles(const std::int32_t*, const float*, DeviceRows, DeviceRows) override {}
  void rope(DeviceRows, ConstDeviceRows, ConstDeviceRows) override {}
  void store_kv(ConstDeviceRows, ConstDeviceRows, const RowPlaces&, KvLayer) override {}
  void fill(DeviceRows, float) override {}

  void attention(ConstDeviceRows q, const KvLayer&, const RowPlaces& places, const HeadShape&,
                 DeviceRows) override {
    constexpr int kMost = 12;  // slots of a tail, whatever position a row claims to have
    rows.clear();
    for (int t = 0; t < q.rows; t++) {
      Row row{places.positions[t], -1, {}};
      if (const int first = places.tail_first(t); first < 1000) {
        row.first = first;
        for (int j = first; j <= row.position && j < first + kMost; j++) {
          row.tail.push_back(places.tail_slot(t, j));
        }
      }
      rows.push_back(row);
    }
  }
};

// A tiny Llama with a cache for a few short sequences. page_size 0: a contiguous cache.
struct TinyLlama {
  explicit TinyLlama(int page_size)
      : backend(make_plain_backend()),
        model(Checkpoint(embedded_target() / "../../checkpoints/plain_rope"), *backend),
        cache(page_size == 0
                  ? std::unique_ptr<KvCache>(
                        std::make_unique<ContiguousKvCache>(*backend, model.kv_shape(), 4, 96))
                  : std::make_unique<PagedKvCache>(*backend, model.kv_shape(), 400, page_size)),
        llama(model, *cache) {}

  SequenceId prefilled(std::span<const TokenId> tokens) {
    const SequenceId sequence = llama.create();
    llama.forward(Segment{sequence, tokens, 0}, {});
    return sequence;
  }
  std::vector<float> to_host(DeviceRows row) const {
    std::vector<float> values(std::size_t(row.width));
    backend->download(row.row(0), values.data(), values.size() * sizeof(float));
    return values;
  }

  std::unique_ptr<Backend> backend;
  LlamaModel model;
  std::unique_ptr<KvCache> cache;
  Llama llama;
};

// Parents of a segment: entry 0 is the pending token, and each later one follows any before it.
inline Numbers random_parents(std::uint64_t seed, int count) {
  Numbers parents = {-1};
  for (int i = 1; i < count; i++) {
    parents.push_back(static_cast<int>(i * uniform(seed, i, Purpose::kRace)));
  }
  return parents;
}

// The tree of sitting 8.2.
inline Numbers parents_of_the_book() { return {-1, 0, 0, 1, 1, 2, 3, 3, 4, 5}; }

// ---- Caches

// Passes everything on, and writes down what it is asked to keep.
class WatchedKeep final : public ForwardingModel {
 public:
  using ForwardingModel::ForwardingModel;

  void keep(SequenceId sequence, int start, std::span<const int> kept) override {
    starts.push_back(start);
    places.assign(kept.begin(), kept.end());
    ForwardingModel::keep(sequence, start, kept);
  }

  Numbers starts, places;  // of all calls; of the last one
};

// Drafts nothing, and writes down what it is told to keep.
class WatchedDrafter final : public Drafter {
 public:
  SequenceId create() override { return 0; }
  void release(SequenceId) override {}
  void draft(std::span<const DraftRequest>) override {}
  void keep(SequenceId sequence, int /*length*/, std::span<const int> path) override {
    sequences.push_back(sequence);
    kept.assign(path.begin(), path.end());
  }
  void truncate(SequenceId, int) override {}
  int length(SequenceId) const override { return 0; }

  Numbers sequences, kept;  // of all calls; the path of the last one
};

}  // namespace specdec::course
