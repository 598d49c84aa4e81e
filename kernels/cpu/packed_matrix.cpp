#include "kernels/cpu/packed_matrix.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/half.h"
#include "kernels/cpu/quantize.h"
#include "kernels/cpu/transpose_words.h"

namespace specdec::cpu {
namespace {

static_assert(std::endian::native == std::endian::little, "two halves share a word");

// The index of a panel's row r within a step.
int place_of_row(WeightType type, int r) {
  if (type != WeightType::kBF16) return r;
  return r < kLanes ? 2 * r : 2 * (r - kLanes) + 1;
}

// Where the elements of a panel's rows start; null past the matrix's last row.
using PanelSources = std::array<const std::byte*, kPanelRows>;

PanelSources find_sources(std::span<const HostMatrix> parts, std::int64_t first_row) {
  PanelSources sources = {};
  std::int64_t part_start = 0;
  for (const HostMatrix& part : parts) {
    const std::int64_t row_bytes = std::ssize(part.bytes) / part.rows;
    for (int r = 0; r < kPanelRows; ++r) {
      const std::int64_t row = first_row + r - part_start;
      if (row >= 0 && row < part.rows) sources[r] = part.bytes.data() + row * row_bytes;
    }
    part_start += part.rows;
  }
  return sources;
}

// Transposes a panel's rows. out: [width][kPanelRows]. Source bytes may be at any alignment.
template <typename Element>
void transpose(WeightType type, const PanelSources& sources, int width, Element* out) {
  for (int r = 0; r < kPanelRows; ++r) {
    Element* column = out + place_of_row(type, r);
    for (int k = 0; k < width; ++k) {
      Element value = {};
      if (sources[r] != nullptr) {
        std::memcpy(&value, sources[r] + k * sizeof value, sizeof value);
      }
      column[std::ptrdiff_t{k} * kPanelRows] = value;
    }
  }
}

// The same for types of two and four bytes, one square of words at a time. A word of a step holds
// one element of four bytes, or two elements of two.
template <typename Element>
void transpose_by_words(WeightType type, const PanelSources& sources, int width, Element* out) {
  constexpr int kInWord = 4 / sizeof(Element), kWords = kPanelRows / kInWord;
  int rows_at[kPanelRows];  // the row at each index of a step
  for (int r = 0; r < kPanelRows; ++r) rows_at[place_of_row(type, r)] = r;
  int k = 0;
  for (; k + kLanes <= width; k += kLanes) {
    for (int first = 0; first < kWords; first += kLanes) {
      Words square[kLanes];
      for (int j = 0; j < kLanes; ++j) {
        Element elements[kInWord][kLanes] = {};
        for (int part = 0; part < kInWord; ++part) {
          const std::byte* source = sources[rows_at[(first + j) * kInWord + part]];
          if (source == nullptr) continue;
          std::memcpy(elements[part], source + k * sizeof(Element), sizeof elements[part]);
        }
        for (int i = 0; i < kLanes; ++i) {
          std::uint32_t word = elements[0][i];
          if constexpr (kInWord == 2) word |= std::uint32_t{elements[1][i]} << 16;
          square[j][i] = word;
        }
      }
      transpose_words(square);
      for (int i = 0; i < kLanes; ++i) {
        std::memcpy(out + std::ptrdiff_t{k + i} * kPanelRows + first * kInWord, &square[i],
                    sizeof square[i]);
      }
    }
  }
  PanelSources rest = sources;
  for (const std::byte*& source : rest) {
    if (source != nullptr) source += k * sizeof(Element);
  }
  transpose(type, rest, width - k, out + std::ptrdiff_t{k} * kPanelRows);
}

// Quantises a panel's rows, which have this type. out: [width][kPanelRows], then their scales.
void pack_int8(WeightType type, const PanelSources& sources, int width, std::byte* out) {
  constexpr int kBlock = 256;  // elements of each row at a time, in the first-level cache
  const std::ptrdiff_t size = element_size(type);
  std::array<float, kPanelRows> scales = {};
  for (int r = 0; r < kPanelRows; ++r) {
    if (sources[r] != nullptr) scales[r] = int8_scale(type, sources[r], width);
  }
  for (int first = 0; first < width; first += kBlock) {
    const int count = std::min(kBlock, width - first);
    std::int8_t q[kPanelRows][kBlock];
    PanelSources quantized = {};
    for (int r = 0; r < kPanelRows; ++r) {
      if (sources[r] == nullptr) continue;
      quantize(type, sources[r] + first * size, count, scales[r], q[r]);
      quantized[r] = reinterpret_cast<const std::byte*>(q[r]);
    }
    transpose(WeightType::kInt8, quantized, count,
              reinterpret_cast<std::uint8_t*>(out) + std::ptrdiff_t{first} * kPanelRows);
  }
  std::memcpy(out + std::ptrdiff_t{width} * kPanelRows, scales.data(), sizeof scales);
}

// Where step k of row r is in a group.
template <typename Group>
auto& word_of(Group& group, int r, int k) {
  return group.words[r / kLanes][k / PanelGroup::kInWord][r % kLanes];
}
int shift_of(int k) { return 4 * (k % PanelGroup::kInWord); }

void put_row(const Q4Group& from, int r, PanelGroup& group) {
  group.scales[r] = from.scale;
  group.minimums[r] = from.minimum;
  for (int k = 0; k < kGroupElements; ++k) {
    word_of(group, r, k) |= std::uint32_t{from.q(k)} << shift_of(k);
  }
}
void put_row(const Q8Group& from, int r, PanelGroup8& group) {
  group.scales[r] = from.scale;
  for (int k = 0; k < kGroupElements; ++k) group.q[k][r] = from.q[k];
}

float element(const PanelGroup& group, int r, int k) {
  const auto q = static_cast<float>(word_of(group, r, k) >> shift_of(k) & 15u);
  return float_from_f16(group.scales[r]) * q + float_from_f16(group.minimums[r]);
}
float element(const PanelGroup8& group, int r, int k) {
  return float_from_f16(group.scales[r]) * static_cast<float>(group.q[k][r]);
}

// The groups of a panel's rows, which have this type; groups of a file as they are.
template <typename Group, typename OfPanel>
void pack_groups(WeightType type, const PanelSources& sources, int width, std::byte* out) {
  constexpr int kBlock = 8;  // groups of each row at a time
  const int groups = groups_of(width);
  for (int first = 0; first < groups; first += kBlock) {
    const int count = std::min(kBlock, groups - first);
    Group rows[kPanelRows][kBlock];
    for (int r = 0; r < kPanelRows; ++r) {
      if (sources[r] == nullptr) continue;
      if (is_grouped(type)) {
        std::memcpy(rows[r], sources[r] + first * sizeof(Group), count * sizeof(Group));
      } else if constexpr (std::is_same_v<Group, Q4Group>) {
        const int k = first * kGroupElements;
        quantize_q4(type, sources[r] + k * element_size(type),
                    std::min(count * kGroupElements, width - k), rows[r]);
      }
    }
    for (int g = 0; g < count; ++g) {
      OfPanel group = {};
      for (int r = 0; r < kPanelRows; ++r) put_row(rows[r][g], r, group);
      std::memcpy(out + (first + g) * sizeof group, &group, sizeof group);
    }
  }
}

std::int64_t panel_size(const StackedShape& shape) { return kPanelRows * row_bytes(shape); }

std::size_t packed_size(const StackedShape& shape) {
  const std::int64_t panels = (std::int64_t{shape.rows} + kPanelRows - 1) / kPanelRows;
  return panels * panel_size(shape);
}

}  // namespace

PackedMatrix::PackedMatrix(const StackedShape& shape, DeviceAllocator& allocator)
    : WeightMatrix(shape.rows, shape.width, packed_size(shape)),
      type_(shape.type),
      panel_bytes_(panel_size(shape)),
      data_(allocator, packed_size(shape)) {}

PackedMatrix::PackedMatrix(std::span<const HostMatrix> parts, WeightFormat format,
                           DeviceAllocator& allocator, ThreadTeam& team)
    : PackedMatrix(stacked_shape(parts, format), allocator) {
  team.run_ranges(panels(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) pack_panel(parts, p);
  });
}

void PackedMatrix::pack_panel(std::span<const HostMatrix> parts, std::int64_t p) {
  const PanelSources sources = find_sources(parts, p * kPanelRows);
  std::byte* out = data_.data() + p * panel_bytes_;
  if (type_ == WeightType::kInt8) {
    pack_int8(parts[0].type, sources, width(), out);
  } else if (type_ == WeightType::kQ4) {
    pack_groups<Q4Group, PanelGroup>(parts[0].type, sources, width(), out);
  } else if (type_ == WeightType::kQ8) {
    pack_groups<Q8Group, PanelGroup8>(parts[0].type, sources, width(), out);
  } else if (element_size(type_) == 4) {
    transpose_by_words(type_, sources, width(), reinterpret_cast<std::uint32_t*>(out));
  } else {
    transpose_by_words(type_, sources, width(), reinterpret_cast<std::uint16_t*>(out));
  }
}

const float* PackedMatrix::scales(const std::byte* panel) const {
  return reinterpret_cast<const float*>(panel + std::ptrdiff_t{width()} * kPanelRows);
}

template <typename Group>
void PackedMatrix::read_row_of_groups(int n, float* out) const {
  const auto* groups = reinterpret_cast<const Group*>(panel(n / kPanelRows));
  for (int k = 0; k < width(); ++k) {
    out[k] = element(groups[k / kGroupElements], n % kPanelRows, k % kGroupElements);
  }
}

void PackedMatrix::read_row(int n, float* out) const {
  if (type_ == WeightType::kQ4) return read_row_of_groups<PanelGroup>(n, out);
  if (type_ == WeightType::kQ8) return read_row_of_groups<PanelGroup8>(n, out);
  const std::byte* block = panel(n / kPanelRows);
  const int place = place_of_row(type_, n % kPanelRows);
  for (int k = 0; k < width(); ++k) {
    const std::ptrdiff_t index = std::ptrdiff_t{k} * kPanelRows + place;
    if (type_ == WeightType::kF32) {
      out[k] = reinterpret_cast<const float*>(block)[index];
    } else if (type_ == WeightType::kInt8) {
      const float scale = scales(block)[place];
      out[k] = scale * reinterpret_cast<const std::int8_t*>(block)[index];
    } else {
      const std::uint16_t bits = reinterpret_cast<const std::uint16_t*>(block)[index];
      out[k] = type_ == WeightType::kBF16 ? float_from_bf16(bits) : float_from_f16(bits);
    }
  }
}

}  // namespace specdec::cpu
