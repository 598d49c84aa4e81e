#pragma once
#include <memory>

#include "common/llama.h"
#include "stages/programs/cache/make_cache.h"
#include "stages/programs/run/options.h"
#include "stages/programs/run/request.h"

namespace specdec {

// The target that the options name, with its device and its KV cache.
struct TargetSetup {
  // Throws Error, as make_backend(), load_target() and make_cache().
  TargetSetup(const RunOptions& options, const ModelFiles& files, const CacheLayout& layout,
              int max_pass_rows = LlamaOptions().max_pass_rows);

  const std::unique_ptr<Backend> backend;
  const LlamaModel model;
  const std::unique_ptr<KvCache> cache;
  Llama llama;
};

}  // namespace specdec
