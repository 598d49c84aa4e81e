#include "stages/09_self_drafting/lookahead_model.h"

#include <algorithm>
#include <numeric>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/checkpoint/elements.h"
#include "stages/09_self_drafting/head_file.h"

namespace specdec {
namespace {

// What enters a Llama's first block, during a pass.
class Entering {
 public:
  Entering(Llama& llama, LlamaInput& input) : llama_(llama) { llama_.enter_through(&input); }
  ~Entering() { llama_.enter_through(nullptr); }
  Entering(const Entering&) = delete;
  Entering& operator=(const Entering&) = delete;

 private:
  Llama& llama_;
};

// The ids of the look-ahead tokens, which are those after the vocabulary's.
std::vector<TokenId> lookahead_ids(int n, int vocab_size) {
  std::vector<TokenId> ids(n);
  std::iota(ids.begin(), ids.end(), vocab_size);
  return ids;
}

}  // namespace

std::vector<float> load_lookahead(const std::filesystem::path& folder, int d_model, int width) {
  HeadFile file(folder, d_model);
  if (file.config().string("model_type") != "lookahead") {
    fail("{}: model_type is not lookahead", file.config().name());
  }
  const int n = file.size_of("num_lookahead_tokens");
  const std::vector<float> stored = to_float32(file.take("lookahead.weight", {n, d_model}));
  file.refuse_leftovers();
  std::vector<float> embeddings(std::size_t(n) * width);  // an inflated target adds zeros
  for (int i = 0; i < n; ++i) {
    std::copy_n(stored.begin() + std::ptrdiff_t(i) * d_model, d_model,
                embeddings.begin() + std::ptrdiff_t(i) * width);
  }
  return embeddings;
}

LookaheadModel::LookaheadModel(const LlamaModel& target, std::span<const float> embeddings,
                               int max_requests)
    : OnePassModel(
          target.backend(), target.config().vocab_size,
          lookahead_ids(int_size(embeddings) / target.config().d_model, target.config().vocab_size),
          max_requests, 1),
      target_(target),
      n_tokens_(max_drafts() - 1),
      embeddings_(backend(), std::size_t(n_tokens_ + max_requests) * target.config().d_model),
      pending_on_device_(backend(), max_requests),
      sources_on_device_(backend(), std::size_t(max_requests) * max_drafts()) {
  SPECDEC_CHECK(int_size(embeddings) == n_tokens_ * target.config().d_model, "whole rows");
  backend().upload(embeddings.data(), embeddings_.data(), embeddings.size_bytes());
  pending_.reserve(max_requests);
  sources_.reserve(sources_on_device_.size());
}

// [snippet look-ahead]
void LookaheadModel::begin(std::span<const DraftRequest> requests) {
  embed_pending(requests);
  {
    const Entering entering(*llama_, *this);
    pass(*llama_, requests);
  }
  for (const DraftRequest& r : requests) {
    llama_->truncate(r.target_sequence, int_size(r.context) - 1);  // verification comes next
  }
}

// The embeddings of the rows. Their ids are not looked up.
ConstDeviceRows LookaheadModel::enter(Backend& ops, const std::int32_t*, int first, DeviceRows x) {
  const DeviceRows embeddings = matrix(embeddings_, n_tokens_ + int_size(pending_), x.width);
  ops.gather_rows(embeddings, sources_on_device_.data() + first, x);
  return {};
}
// [end snippet look-ahead]

// Puts the embeddings of the pending tokens after the trained ones, and says which row of the pass
// has which embedding.
void LookaheadModel::embed_pending(std::span<const DraftRequest> requests) {
  pending_.clear();
  sources_.clear();
  for (const DraftRequest& r : requests) {
    SPECDEC_CHECK(llama_ != nullptr && llama_->length(r.target_sequence) + 1 == int_size(r.context),
                  "a target that has cached all tokens but the pending one");
    sources_.push_back(n_tokens_ + int_size(pending_));
    pending_.push_back(r.context.back());
    for (int i = 0; i + 1 < r.spec_length; ++i) sources_.push_back(i);
  }
  SPECDEC_CHECK(sources_.size() <= sources_on_device_.size(), "at most {} rows",
                sources_on_device_.size());
  const int n = int_size(pending_), E = target_.config().d_model;
  backend().upload(pending_.data(), pending_on_device_.data(), n * sizeof(std::int32_t));
  backend().upload(sources_.data(), sources_on_device_.data(),
                   sources_.size() * sizeof(std::int32_t));
  backend().embed(target_.embedding(), pending_on_device_.data(),
                  matrix(embeddings_, n_tokens_ + n, E).slice(n_tokens_, n));
}

}  // namespace specdec
