#pragma once
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "common/kv_cache.h"
#include "tests/unit/common/memory_backend.h"

namespace specdec::course {

// A cache whose keys and values are whole numbers, so that people can read them.
template <typename Cache>
class CacheScene {
 public:
  static constexpr KvShape kShape{.n_layers = 2, .n_kv_heads = 1, .head_dim = 2};

  // sizes: of the cache, as its constructor has them.
  CacheScene(std::uint64_t seed, int first_size, int second_size)
      : generator_(seed), cache(backend_, kShape, first_size, second_size) {}

  int between(int least, int most) {
    return least + static_cast<int>(generator_() % static_cast<unsigned>(most - least + 1));
  }

  SequenceId create(int length) {
    const SequenceId sequence = cache.create();
    extend({{sequence, length}});
    return sequence;
  }

  void extend(std::vector<Extension> extensions) { cache.extend(extensions); }

  // Whether a call is refused with CacheFull.
  template <typename Call>
  std::string answer(Call call) {
    try {
      call();
    } catch (const CacheFull&) {
      return "refused";
    }
    return "accepted";
  }

  // Writes number, number + 1, ... at the positions of a sequence from `begin` on.
  void write(SequenceId sequence, int number, int begin = 0) {
    for (int i = begin; i < cache.length(sequence); i++) {
      write_slot(cache.slot(sequence, i), number++);
    }
  }
  void write_slot(int slot, int number) {
    for (float* row : rows(slot)) *row = static_cast<float>(number);
  }

  // The numbers at the positions of a sequence.
  std::vector<int> read(SequenceId sequence) {
    std::vector<int> numbers;
    for (int i = 0; i < cache.length(sequence); i++) {
      numbers.push_back(read_slot(cache.slot(sequence, i)));
    }
    return numbers;
  }
  // -1 where nothing was ever written, -2 where keys and values of the layers are not alike.
  int read_slot(int slot) {
    const std::vector<float*> all = rows(slot);
    const float first = *all.front();
    const bool alike = std::ranges::all_of(all, [&](const float* row) { return *row == first; });
    return std::isnan(first) ? -1 : alike ? static_cast<int>(first) : -2;
  }

 private:
  // The rows of a slot: a key and a value in each layer.
  std::vector<float*> rows(int slot) {
    std::vector<float*> rows;
    for (int i = 0; i < kShape.n_layers; i++) {
      const KvRows<float> layer = cache.memory().layer(i).template rows<float>();
      rows.push_back(layer.keys + slot * kShape.width());
      rows.push_back(layer.values + slot * kShape.width());
    }
    return rows;
  }

  std::mt19937_64 generator_;
  MemoryBackend backend_;

 public:
  Cache cache;
};

}  // namespace specdec::course
