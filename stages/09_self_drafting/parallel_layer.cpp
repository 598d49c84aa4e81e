#include "stages/09_self_drafting/parallel_layer.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace specdec {

ParallelLayer::ParallelLayer(std::unique_ptr<FeatureModel> layer, int max_drafts, int max_requests,
                             int max_context)
    : OnePassModel(layer->backend(), layer->vocab_size(),
                   std::vector<TokenId>(max_drafts - 1, layer->layer().mask), max_requests,
                   max_context),
      layer_(std::move(layer)),
      of_layer_(max_requests) {
  SPECDEC_CHECK(layer_->layer().mask_feature.size() > 0, "a feature for masks");
  requests_.reserve(max_requests);
}

// [snippet parallel-layer]
void ParallelLayer::begin(std::span<const DraftRequest> requests) {
  requests_.assign(requests.begin(), requests.end());
  for (DraftRequest& r : requests_) r.sequence = of_layer_[r.sequence];
  layer_->begin(requests_);  // looks up the features of the context
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests_[i].target_sequence = std::exchange(requests_[i].sequence, requests[i].sequence);
  }
  pass(*layer_, requests_);
  for (const DraftRequest& r : requests_) {
    layer_->truncate(r.target_sequence, int_size(r.context));  // forgets the masks
  }
}
// [end snippet parallel-layer]

SequenceId ParallelLayer::create() {
  const SequenceId sequence = OnePassModel::create();
  of_layer_[sequence] = layer_->create();
  return sequence;
}

void ParallelLayer::release(SequenceId sequence) {
  OnePassModel::release(sequence);
  layer_->release(of_layer_[sequence]);
}

void ParallelLayer::truncate(SequenceId sequence, int length) {
  OnePassModel::truncate(sequence, length);
  const SequenceId of_layer = of_layer_[sequence];
  layer_->truncate(of_layer, std::min(length, layer_->length(of_layer)));
}

}  // namespace specdec
