#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include "common/generation.h"
#include "common/llama.h"
#include "stages/04_greedy_speculation/draft_and_verify.h"
#include "stages/programs/check/golden_check.h"
#include "stages/programs/speculation/draft_setup.h"

namespace specdec {

// The target of a --check in stages 4 and later, with the golden texts that it must emit.
struct CheckedTarget {
  // Throws Error for bad options and files, and for goldens of another model.
  explicit CheckedTarget(const RunOptions& options);

  RunOptions options;  // those of the command line, without limits of pages and positions
  std::filesystem::path goldens;
  ModelFiles files;
  std::unique_ptr<Backend> backend;
  LlamaModel model;
  std::vector<GoldenText> texts;  // of greedy.jsonl

  GenerationRequest request(const GoldenText& text) const;
};

// How a check drafts; by default --spec-length tokens, greedily.
struct CheckedParts {
  Drafting drafting = {};
  ComposeDrafter compose = {};
  std::unique_ptr<SpecLengthPolicy> policy = nullptr;
  RoundCapacity capacity = Capacity::of_chain;
};

// A request under check, after its prefill: its drafter, both caches and the text so far.
struct CheckedRun {
  // REQUIRES: `checked` outlives this object.
  CheckedRun(const CheckedTarget& checked, const RunOptions& options, GenerationRequest request,
             CheckedParts parts = {});

  RunOptions options;
  GenerationRequest request;
  Capacity capacity;
  DraftSetup draft;
  std::unique_ptr<KvCache> cache;
  Llama target;
  std::unique_ptr<TargetRows> watched;  // the target as a drafter watches it; null: none does
  DraftAndVerify steps;
  Generation generation;
  std::vector<TokenId> context;

  // Which token differs from `want`, or an empty text.
  std::string difference(std::span<const TokenId> want) const {
    return golden_difference(generation.tokens(), want);
  }
};

}  // namespace specdec
