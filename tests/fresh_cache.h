#pragma once
#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine_fixture.h"

namespace specdec {

// Keys and values of a sequence, position by position, all layers.
inline std::vector<float> cached_values(const KvCache& cache, SequenceId sequence) {
  std::vector<float> values;
  for (int i = 0; i < cache.memory().shape().n_layers; i++) {
    for (int position = 0; position < cache.length(sequence); position++) {
      const auto [key, value] = cache.memory().read(i, cache.slot(sequence, position));
      values.insert(values.end(), key.begin(), key.end());
      values.insert(values.end(), value.begin(), value.end());
    }
  }
  return values;
}

// Makes everything NaN that does not belong to the sequence: rejected drafts, free pages.
inline void poison_beyond(const KvCache& cache, SequenceId sequence) {
  const KvMemory& memory = cache.memory();
  std::vector<bool> kept(static_cast<std::size_t>(memory.slots()));
  for (int position = 0; position < cache.length(sequence); position++) {
    kept[static_cast<std::size_t>(cache.slot(sequence, position))] = true;
  }
  for (std::size_t slot = 0; slot < kept.size(); slot++) {
    if (!kept[slot]) poison_slot(memory, static_cast<int>(slot));
  }
}

// Expects a sequence's cache to be that of a fresh prefill, and poisons the rest.
inline void expect_fresh(const LlamaModel& model, CachedLlama& cached, SequenceId sequence,
                         std::span<const TokenId> context) {
  const auto length = static_cast<std::size_t>(cached.llama.length(sequence));
  if (length == 0) return;  // a draft that was not asked yet
  CachedLlama fresh(model, kNoPages, static_cast<int>(length));
  const SequenceId all = fresh.llama.create();
  fresh.llama.forward(Segment{all, context.first(length), 0}, {});
  const auto got = cached_values(*cached.cache, sequence);
  EXPECT_TRUE(equal_bits(got, cached_values(*fresh.cache, all))) << length << " positions";
  EXPECT_TRUE(std::ranges::all_of(got, [](float x) { return std::isfinite(x); }));
  poison_beyond(*cached.cache, sequence);
}

}  // namespace specdec
