#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine_fixture.h"

namespace specdec {

// Keys and values of a sequence, position by position, all layers.
inline std::vector<float> cached_values(Backend& backend, const KvCache& cache,
                                        SequenceId sequence) {
  const auto width = static_cast<std::size_t>(cache.memory().shape().width());
  std::vector<float> values;
  const auto append = [&](const float* rows, int slot) {
    values.resize(values.size() + width);
    backend.download(rows + static_cast<std::size_t>(slot) * width,
                     values.data() + values.size() - width, width * sizeof(float));
  };
  for (int i = 0; i < cache.memory().shape().n_layers; i++) {
    const KvLayer layer = cache.memory().layer(i);
    for (int position = 0; position < cache.length(sequence); position++) {
      append(layer.keys, cache.slot(sequence, position));
      append(layer.values, cache.slot(sequence, position));
    }
  }
  return values;
}

// Makes everything NaN that does not belong to the sequence: rejected drafts, free pages.
inline void poison_beyond(Backend& backend, const KvCache& cache, SequenceId sequence) {
  const KvMemory& memory = cache.memory();
  std::vector<bool> kept(static_cast<std::size_t>(memory.slots()));
  for (int position = 0; position < cache.length(sequence); position++) {
    kept[static_cast<std::size_t>(cache.slot(sequence, position))] = true;
  }
  const auto width = static_cast<std::size_t>(memory.shape().width());
  const std::vector<float> nans(width, std::numeric_limits<float>::quiet_NaN());
  for (std::size_t slot = 0; slot < kept.size(); slot++) {
    if (kept[slot]) continue;
    for (int i = 0; i < memory.shape().n_layers; i++) {
      backend.upload(nans.data(), memory.layer(i).keys + slot * width, width * sizeof(float));
      backend.upload(nans.data(), memory.layer(i).values + slot * width, width * sizeof(float));
    }
  }
}

// Expects a sequence's cache to be that of a fresh prefill, and poisons the rest.
inline void expect_fresh(const LlamaModel& model, CachedLlama& cached, SequenceId sequence,
                         std::span<const TokenId> context) {
  const auto length = static_cast<std::size_t>(cached.llama.length(sequence));
  if (length == 0) return;  // a draft that was not asked yet
  CachedLlama fresh(model, kContiguous, static_cast<int>(length));
  const SequenceId all = fresh.llama.create();
  fresh.llama.forward(Segment{all, context.first(length), 0}, {});
  const auto got = cached_values(model.backend(), *cached.cache, sequence);
  EXPECT_TRUE(equal_bits(got, cached_values(model.backend(), *fresh.cache, all)))
      << length << " positions";
  EXPECT_TRUE(std::ranges::all_of(got, [](float x) { return std::isfinite(x); }));
  poison_beyond(model.backend(), *cached.cache, sequence);
}

}  // namespace specdec
