#pragma once
#include <filesystem>
#include <span>
#include <vector>

#include "common/llama.h"
#include "stages/09_self_drafting/one_pass_model.h"

namespace specdec {

// The trained embeddings in a folder with config.json and model.safetensors, [T, width]. d_model,
// width, errors: as for load_heads().
std::vector<float> load_lookahead(const std::filesystem::path& folder, int d_model, int width);

// A target that proposes several tokens in one pass (Monea et al. 2023, PaSS): trained embeddings,
// the look-ahead tokens, follow the pending token. The first draft is what the target proposes
// after the pending token, so it is always accepted.
class LookaheadModel final : public OnePassModel, private LlamaInput {
 public:
  // embeddings: of the look-ahead tokens, [T, d_model]. max_requests: of one begin(), and
  // sequences. REQUIRES: the target's weights outlive this object.
  LookaheadModel(const LlamaModel& target, std::span<const float> embeddings, int max_requests);

  // From now on, this target drafts. REQUIRES: it has the weights, and outlives the last
  // call of begin().
  void read(Llama& target) { llama_ = &target; }

  // After it, the target has cached what it had before. Throws as LanguageModel::forward().
  // REQUIRES: it has cached all tokens of each context but the pending one.
  void begin(std::span<const DraftRequest> requests) override;

 private:
  void embed_pending(std::span<const DraftRequest> requests);
  // Ids from the vocabulary's size on are look-ahead tokens.
  int ids() const override { return vocab_size() + n_tokens_; }
  ConstDeviceRows enter(Backend& ops, const std::int32_t* ids, int first, DeviceRows x) override;

  const LlamaModel& target_;
  int n_tokens_;  // T
  Llama* llama_ = nullptr;
  std::vector<TokenId> pending_;       // of each request
  std::vector<std::int32_t> sources_;  // [rows of the pass] their rows of embeddings_
  DeviceArray<float> embeddings_;      // [T + max_requests, d_model], the pending tokens' last
  DeviceArray<std::int32_t> pending_on_device_, sources_on_device_;
};

}  // namespace specdec
