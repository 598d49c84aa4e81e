// Facts about stage 2: the books of the contiguous cache, what lies in its memory, and attention.
#include <bit>
#include <random>

#include "kernels/cpu/cpu_backend.h"
#include "stages/02_contiguous_kv_cache/contiguous_kv_cache.h"
#include "stages/02_contiguous_kv_cache/plain_contiguous_attention.h"
#include "tests/course/probes/cache_scene.h"
#include "tests/course/probes/facts.h"

namespace specdec {
namespace {

using course::fact;
using course::floats;

// Room for 3 sequences of 10 tokens.
struct Scene : course::CacheScene<ContiguousKvCache> {
  explicit Scene(std::uint64_t seed) : CacheScene(seed, 3, 10) {}
};

void extend(std::uint64_t seed) {
  Scene scene(seed);
  ContiguousKvCache& cache = scene.cache;
  const SequenceId a = cache.create(), b = cache.create();
  const int n = scene.between(3, 6), m = scene.between(3, 6);
  const auto lengths = [&] { return std::vector<int>{cache.length(a), cache.length(b)}; };
  scene.extend({{a, n}, {b, m}});
  fact(fmt::format("lengths of two new sequences, extended by {} and {}", n, m), lengths());
  scene.extend({{b, 2}});
  fact("lengths after the second got 2 more", lengths());
  const int too_many = 10 - (m + 2) + 1;
  fact(fmt::format("10 places each: 1 more for the first and {} for the second, one too many",
                   too_many),
       scene.answer([&] {
         scene.extend({{a, 1}, {b, too_many}});
       }));
  fact("lengths after the refusal", lengths());
  fact(fmt::format("10 places each: 1 more for the first and {} for the second, just enough",
                   too_many - 1),
       scene.answer([&] {
         scene.extend({{a, 1}, {b, too_many - 1}});
       }));
  fact("lengths when the second is full", lengths());
}

void truncate(std::uint64_t seed) {
  Scene scene(seed);
  ContiguousKvCache& cache = scene.cache;
  const int other = scene.between(2, 9), kept = scene.between(2, 5);
  const SequenceId a = scene.create(other), b = scene.create(8);
  scene.write(a, 100);
  scene.write(b, 200);
  cache.truncate(b, kept);
  fact(fmt::format("length of 8 tokens truncated to {}", kept), cache.length(b));
  fact(fmt::format("length of the other sequence, which had {}", other), cache.length(a));
  fact(fmt::format("values after truncating to {}", kept), scene.read(b));
  scene.extend({{b, 1}});
  fact("slot of the next token after truncating", cache.slot(b, cache.length(b) - 1));
  cache.truncate(b, cache.length(b));
  fact("length after truncating to the same length", cache.length(b));
  cache.truncate(b, 0);
  fact("length after truncating to 0", cache.length(b));
  fact("truncating 0 tokens to 1", course::fate([&] { cache.truncate(b, 1); }));
  fact("truncating to -1", course::fate([&] { cache.truncate(b, -1); }));
}

void fork(std::uint64_t seed) {
  Scene scene(seed);
  ContiguousKvCache& cache = scene.cache;
  const SequenceId a = scene.create(2);
  const int length = scene.between(4, 8);
  const SequenceId b = scene.create(length);
  scene.write(a, 100);
  scene.write(b, 200);
  scene.write_slot(cache.slot(b, 0) + length, 900);  // left over from a longer text
  const SequenceId c = cache.fork(b);
  fact(fmt::format("length of a fork of {} tokens", length), cache.length(c));
  fact(fmt::format("values of a fork of {} tokens", length), scene.read(c));
  fact("slots that were copied for it",
       cache.bytes_copied() / cache.memory().shape().bytes_per_token());
  fact("slot of the fork behind its tokens", scene.read_slot(cache.slot(c, 0) + length));
  scene.extend({{c, 1}});
  scene.write(c, 300);
  fact("values of the original after the fork was written to", scene.read(b));
  fact("values of the fork after it was written to", scene.read(c));
  fact("a fork when no region is free", scene.answer([&] { cache.fork(a); }));
}

// A query over `position` + 1 cached tokens; behind them lies NaN, which nobody may read.
class AttentionScene {
 public:
  AttentionScene(std::uint64_t seed, int position) : position_(position), generator_(seed) {
    q_ = numbers(kHeads.n_heads);
    keys_ = numbers(position + 1);
    values_ = numbers(position + 1);
    for (auto* rows : {&keys_, &values_}) {
      rows->resize(rows->size() + 4 * kHeads.head_dim, std::numeric_limits<float>::quiet_NaN());
    }
  }

  std::vector<float> plain() const {
    std::vector<float> out(q_.size());
    plain_contiguous_attention(q_.data(), keys_.data(), values_.data(), position_, kHeads,
                               out.data());
    return out;
  }

  std::vector<float> kernel() {
    std::vector<float> out(q_.size());
    const int width = static_cast<int>(q_.size());
    const std::int32_t zero = 0;
    const RowPlaces places{.positions = &position_,
                           .slots = &zero,
                           .table_starts = &zero,
                           .page_tables = &zero,
                           .page_size = position_ + 1};
    make_plain_backend()->attention({q_.data(), 1, width, width}, {keys_.data(), values_.data()},
                                    places, kHeads, {out.data(), 1, width, width});
    return out;
  }

 private:
  static constexpr HeadShape kHeads{.n_heads = 2, .n_kv_heads = 1, .head_dim = 8};

  std::vector<float> numbers(int rows) {  // -2 .. 2
    std::vector<float> numbers(static_cast<std::size_t>(rows * kHeads.head_dim));
    for (float& number : numbers) number = static_cast<float>(generator_() >> 40) * 0x1p-22f - 2;
    return numbers;
  }

  std::int32_t position_;
  std::mt19937_64 generator_;
  std::vector<float> q_, keys_, values_;
};

void attend(std::uint64_t seed) {
  for (const int position : {0, 2, 63, 64, 150}) {
    const std::vector<float> out = AttentionScene(seed, position).plain();
    for (int head = 0; head < 2; head++) {
      fact(fmt::format("position {}, head {}: output", position, head),
           floats(std::span(out).subspan(static_cast<std::size_t>(8 * head), 8)));
    }
  }
}

void attend_bits(std::uint64_t seed) {
  for (const int position : {0, 15, 63, 64, 150, 600}) {
    AttentionScene scene(seed, position);
    const std::vector<float> plain = scene.plain(), kernel = scene.kernel();
    int differing = 0;
    for (std::size_t i = 0; i < plain.size(); i++) {
      differing +=
          std::bit_cast<std::uint32_t>(plain[i]) != std::bit_cast<std::uint32_t>(kernel[i]);
    }
    fact(fmt::format("position {}: numbers with other bits than the kernel's", position),
         differing);
  }
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  using namespace specdec;
  return course::run_probes(argc, argv,
                            {{"extend", extend},
                             {"truncate", truncate},
                             {"fork", fork},
                             {"attend", attend},
                             {"attend_bits", attend_bits}});
}
