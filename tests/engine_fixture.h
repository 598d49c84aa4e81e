#pragma once
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/checkpoint/checkpoint.h"
#include "common/golden_folder.h"
#include "common/llama.h"
#include "kernels/cpu/cpu_backend.h"
#include "stages/02_contiguous_kv_cache/contiguous_kv_cache.h"
#include "stages/03_paged_kv_cache/paged_kv_cache.h"
#include "tests/poison.h"

namespace specdec {

// golden/models/NAME or golden/checkpoints/NAME; an absolute path is itself.
inline std::filesystem::path golden_model(const std::string& name) {
  const bool embedded = name == "target" || name == "draft";
  return golden_folder() / (embedded ? "models" : "checkpoints") / name;
}

inline std::vector<TokenId> random_tokens(int count, int vocab_size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  for (TokenId& id : tokens) id = static_cast<TokenId>(random() % unsigned(vocab_size));
  return tokens;
}

// Rows of logits on the host, compared bit for bit.
using HostRows = std::vector<std::vector<float>>;

inline HostRows host_rows(Backend& backend, ConstDeviceRows rows) {
  HostRows result;
  for (int r = 0; r < rows.rows; r++) result.push_back(to_host(backend, rows.slice(r, 1)));
  return result;
}

inline bool equal_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// A model of the golden folders with a cache of its own, both poisoned and ready.
struct Engine {
  Engine(const std::string& name, std::unique_ptr<Backend> backend_, int page_size,
         const LlamaOptions& options = {}, int n_sequences = 4, int max_length = 320,
         WeightFormat format = WeightFormat::kStored, KvType kv_type = KvType::kF32)
      : backend(std::move(backend_)), model(Checkpoint(golden_model(name)), *backend, {}, format) {
    const KvShape shape = model.kv_shape(kv_type);
    if (page_size == 0) {
      cache = std::make_unique<ContiguousKvCache>(*backend, shape, n_sequences, max_length);
    } else {
      const int pages = n_sequences * pages_for(max_length, page_size);
      cache = std::make_unique<PagedKvCache>(*backend, shape, pages, page_size);
    }
    poison(*cache);
    llama = std::make_unique<Llama>(model, *cache, options);
  }

  // Logits of the last `rows` tokens appended to a sequence.
  HostRows forward(SequenceId sequence, std::span<const TokenId> tokens, int rows) {
    const LogitsBuffer logits(*llama, std::max(rows, 1));
    llama->forward(Segment{sequence, tokens, rows}, logits.rows(0, rows));
    return host_rows(*backend, logits.rows(0, rows));
  }
  // Of all tokens, as a new sequence.
  HostRows prefill(std::span<const TokenId> tokens) {
    const SequenceId sequence = llama->create();
    HostRows rows = forward(sequence, tokens, static_cast<int>(tokens.size()));
    llama->release(sequence);
    return rows;
  }

  std::unique_ptr<Backend> backend;
  LlamaModel model;
  std::unique_ptr<KvCache> cache;
  std::unique_ptr<Llama> llama;
};

inline constexpr int kNoPages = 0;  // as a page size

// Weights and the backend that they lie on. Several CachedLlamas may share them.
struct LoadedModel {
  LoadedModel(const std::filesystem::path& directory, std::unique_ptr<Backend> backend_,
              WeightFormat format = WeightFormat::kStored)
      : backend(std::move(backend_)), model(Checkpoint(directory), *backend, {}, format) {}
  explicit LoadedModel(const std::string& name, int threads = 2,
                       WeightFormat format = WeightFormat::kStored)
      : LoadedModel(golden_model(name), make_cpu_backend(threads), format) {}

  std::unique_ptr<Backend> backend;
  LlamaModel model;
};

// A Llama with a poisoned cache of its own. page_size kNoPages: stage 2's cache.
struct CachedLlama {
  CachedLlama(const LlamaModel& model, int page_size, int max_length, int n_sequences = 1)
      : cache(make(model, page_size, max_length, n_sequences)), llama(model, *cache) {
    poison(*cache);
  }

  static std::unique_ptr<KvCache> make(const LlamaModel& model, int page_size, int max_length,
                                       int n_sequences) {
    if (page_size == kNoPages) {
      return std::make_unique<ContiguousKvCache>(model.backend(), model.kv_shape(), n_sequences,
                                                 max_length);
    }
    const int pages = n_sequences * pages_for(max_length, page_size);
    return std::make_unique<PagedKvCache>(model.backend(), model.kv_shape(), pages, page_size);
  }

  std::unique_ptr<KvCache> cache;
  Llama llama;
};

}  // namespace specdec
