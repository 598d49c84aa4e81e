#include "common/inflation/inflated_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <sys/mman.h>

#include "common/checkpoint/elements.h"

namespace specdec {
namespace {

struct Shape {
  std::int64_t rows, columns;
};

// A norm is a matrix of one row.
Shape shape_of(WeightKind kind, const LlamaConfig& c) {
  const std::int64_t q_rows = std::int64_t{c.n_heads} * c.head_dim;
  const std::int64_t kv_rows = std::int64_t{c.n_kv_heads} * c.head_dim;
  switch (kind) {
    case WeightKind::kEmbedding:
    case WeightKind::kHead:
      return {c.vocab_size, c.d_model};
    case WeightKind::kQProj:
      return {q_rows, c.d_model};
    case WeightKind::kKProj:
    case WeightKind::kVProj:
      return {kv_rows, c.d_model};
    case WeightKind::kOProj:
      return {c.d_model, q_rows};
    case WeightKind::kGateProj:
    case WeightKind::kUpProj:
      return {c.d_ff, c.d_model};
    case WeightKind::kDownProj:
      return {c.d_model, c.d_ff};
    default:
      return {1, c.d_model};
  }
}

bool is_norm(WeightKind kind) {
  return kind == WeightKind::kAttnNorm || kind == WeightKind::kMlpNorm ||
         kind == WeightKind::kFinalNorm;
}

bool writes_residual(WeightKind kind) {
  return kind == WeightKind::kOProj || kind == WeightKind::kDownProj;
}

bool is_zero_below(WeightKind kind) {
  return kind == WeightKind::kVProj || kind == WeightKind::kGateProj || writes_residual(kind);
}

// A hash: each bit depends on all bits of x (C. Wellons, "Prospecting for hash functions",
// lowbias32).
std::uint32_t mix(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// Random numbers of a floating-point type, keyed by matrix, row and column: either sign, one of
// four powers of two from 2^lowest_exponent on, any mantissa. None is zero, infinite or NaN.
struct RandomNumbers {
  std::uint32_t key;  // of the matrix
  int lowest_exponent;
  int bits, mantissa_bits, exponent_bias;  // of the type

  // Numbers at first, first + 1, ... of a row.
  template <typename Element>
  void fill(std::int64_t row, std::int64_t first, std::span<Element> out) const {
    const std::uint32_t row_key = mix(key ^ static_cast<std::uint32_t>(row));
    const auto low = static_cast<std::uint32_t>(lowest_exponent + exponent_bias) << mantissa_bits;
    const std::uint32_t mask = (4u << mantissa_bits) - 1, sign = 1u << (bits - 1);
    constexpr std::size_t kBlock = 64;  // a constant, so that the compiler uses vectors
    for (std::size_t done = 0; done < out.size(); done += kBlock) {
      std::array<Element, kBlock> block;
      const std::uint32_t column = static_cast<std::uint32_t>(first) + std::uint32_t(done);
      for (std::uint32_t i = 0; i < kBlock; ++i) {
        const std::uint32_t random = mix((column + i) * 0x9e3779b9u ^ row_key);
        block[i] = static_cast<Element>((random >> (32 - bits) & sign) | (low + (random & mask)));
      }
      std::copy_n(block.begin(), std::min(kBlock, out.size() - done),
                  out.begin() + std::ptrdiff_t(done));
    }
  }
};

RandomNumbers random_numbers(std::uint32_t key, DType type, std::int64_t columns) {
  return {.key = mix(key),
          // Numbers of about 1 / sqrt(columns), so that outputs are as large as inputs. The root of
          // the mean square is seven times the lowest power.
          .lowest_exponent = std::ilogb(1 / std::sqrt(columns)) - 3,
          .bits = dtype_bits(type),
          .mantissa_bits = type == DType::kF32   ? 23
                           : type == DType::kF16 ? 10
                                                 : 7,
          .exponent_bias = type == DType::kF16 ? 15 : 127};
}

RandomNumbers random_numbers(WeightKind kind, int layer, DType type, std::int64_t columns) {
  RandomNumbers numbers = random_numbers(
      static_cast<std::uint32_t>(layer + 1) * 16 + std::uint32_t(kind), type, columns);
  if (is_norm(kind)) numbers.lowest_exponent = -2;
  return numbers;
}

// The base's numbers within a matrix, and what surrounds them.
struct Block {
  const std::byte* bytes;  // [rows, columns]
  std::int64_t rows, columns;
  bool zero_right, zero_below;
};

template <typename Element>
void fill_row(const Block& block, const RandomNumbers& random, std::int64_t row,
              std::span<Element> out) {
  const bool in_block = row < block.rows;
  const auto left = out.first(block.columns);
  const auto right = out.subspan(left.size());
  if (in_block) {
    std::memcpy(left.data(), block.bytes + row * left.size_bytes(), left.size_bytes());
  } else if (block.zero_below) {
    std::ranges::fill(left, Element{0});
  } else {
    random.fill(row, 0, left);
  }
  if (in_block && block.zero_right) {
    std::ranges::fill(right, Element{0});
  } else {
    random.fill(row, block.columns, right);
  }
}

template <typename Element>
void fill_rows(cpu::ThreadTeam& team, const Block& block, const RandomNumbers& random,
               const Shape& shape, std::byte* out) {
  auto* elements = reinterpret_cast<Element*>(out);
  const std::size_t width = shape.columns;
  team.run_ranges(shape.rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      fill_row(block, random, row, std::span(elements + row * width, width));
    }
  });
}

// Asks for huge pages: page faults of small ones would take longer than filling them.
std::unique_ptr<std::byte[]> allocate(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  auto memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
  void* whole_pages = memory.get();
  std::size_t space = bytes;
  if (std::align(kPage, kPage, whole_pages, space) != nullptr) {
    madvise(whole_pages, space / kPage * kPage, MADV_HUGEPAGE);  // may fail
  }
  return memory;
}

// A matrix of this shape that contains the block.
Weight surround(cpu::ThreadTeam& team, const Block& block, const RandomNumbers& random, DType type,
                const Shape& shape) {
  const std::size_t bytes = shape.rows * shape.columns * dtype_bits(type) / 8;
  // Before `result` exists: g++ 12 destroys its members twice if the allocation throws.
  auto memory = allocate(bytes);
  Weight result{.view = {type, {shape.rows, shape.columns}, {memory.get(), bytes}},
                .memory = std::move(memory)};
  if (type == DType::kF32) {
    fill_rows<std::uint32_t>(team, block, random, shape, result.memory.get());
  } else {
    fill_rows<std::uint16_t>(team, block, random, shape, result.memory.get());
  }
  return result;
}

}  // namespace

InflatedWeights::InflatedWeights(const WeightSource& base, const LlamaConfig& config, int threads)
    : base_(base), config_(config), team_(std::make_unique<cpu::ThreadTeam>(threads)) {}

Weight InflatedWeights::weight(WeightKind kind, int layer) const {
  const bool is_new = layer >= base_.config().n_layers;
  const Weight from = base_.weight(kind, is_new ? 0 : layer);  // a new layer uses only the type
  const Shape old = shape_of(kind, base_.config()), shape = shape_of(kind, config_);
  Block block{.bytes = from.view.bytes.data(),
              .rows = is_new ? 0 : old.rows,
              .columns = is_new && writes_residual(kind) ? 0 : old.columns,
              .zero_right = kind == WeightKind::kEmbedding,
              .zero_below = is_zero_below(kind)};
  DType type = from.view.dtype;
  std::vector<float> norm;
  if (is_norm(kind)) {
    norm = to_float32(from.view);
    const double scale = std::sqrt(double(old.columns) / double(shape.columns));
    for (float& weight : norm) weight *= scale;
    block.bytes = std::as_bytes(std::span(norm)).data();
    type = DType::kF32;
  }

  return surround(*team_, block, random_numbers(kind, layer, type, shape.columns), type, shape);
}

Weight inflated_matrix(const TensorView& base, std::int64_t rows, std::int64_t columns, int key) {
  cpu::ThreadTeam team(1);
  const Block block{.bytes = base.bytes.data(),
                    .rows = base.shape[0],
                    .columns = base.shape[1],
                    .zero_right = false,
                    .zero_below = true};
  constexpr std::uint32_t kHeads = 1u << 20;  // no layer has a key like that
  return surround(team, block, random_numbers(kHeads + std::uint32_t(key), base.dtype, columns),
                  base.dtype, {rows, columns});
}

}  // namespace specdec
