#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/cuda_backend.h"
#include "kernels/ops.h"

namespace specdec {

// What an option lets you choose from.
enum class DeviceChoice { kAuto, kCpu, kCuda, kEmulated };
enum class CacheKind { kContiguous, kPaged };
enum class DraftKind { kLlama, kSelf, kRandom, kUnigram, kBigram, kLookup, kNgram };
enum class DraftLength { kFixed, kGain, kEntropy, kConfidence, kSchedule };
enum class OutputFormat { kText, kJson };

// The names of the choices on the command line, in JSON and in messages, in the enumerators' order.
inline constexpr std::array<std::string_view, 4> kDeviceNames = {"auto", "cpu", "cuda", "emulated"};
inline constexpr std::array<std::string_view, 2> kCacheNames = {"contiguous", "paged"};
inline constexpr std::array<std::string_view, 2> kKvTypeNames = {"f32", "bf16"};
inline constexpr std::array<std::string_view, 7> kDraftNames = {
    "llama", "self", "random", "unigram", "bigram", "lookup", "ngram"};
inline constexpr std::array<std::string_view, 5> kDraftLengthNames = {"fixed", "gain", "entropy",
                                                                      "confidence", "schedule"};
inline constexpr std::array<std::string_view, 2> kOutputNames = {"text", "json"};
inline constexpr std::array<std::string_view, 2> kGemmNames = {"invariant", "cublas"};
inline constexpr std::array<std::string_view, 2> kWeightNames = {"stored", "int8"};

using ChoiceNames = std::span<const std::string_view>;
constexpr ChoiceNames names_of(DeviceChoice) { return kDeviceNames; }
constexpr ChoiceNames names_of(CacheKind) { return kCacheNames; }
constexpr ChoiceNames names_of(KvType) { return kKvTypeNames; }
constexpr ChoiceNames names_of(DraftKind) { return kDraftNames; }
constexpr ChoiceNames names_of(DraftLength) { return kDraftLengthNames; }
constexpr ChoiceNames names_of(OutputFormat) { return kOutputNames; }
constexpr ChoiceNames names_of(Gemm) { return kGemmNames; }  // Tensor cores are for benchmarks.
constexpr ChoiceNames names_of(WeightFormat) { return kWeightNames; }

template <typename Enum>
constexpr std::string_view name_of(Enum choice) {
  return names_of(choice)[static_cast<std::size_t>(choice)];
}

template <typename Enum>
constexpr std::optional<Enum> find_choice(std::string_view name) {
  const ChoiceNames names = names_of(Enum());
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace specdec
