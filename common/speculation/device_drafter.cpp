#include "common/speculation/device_drafter.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "common/base/check.h"
#include "common/speculation/device_draft_sampler.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

// Whether each step of the request needs only the token of the step before it, and no other result.
bool runs_on(const DraftRequest& request) {
  return request.sampling.gate == nullptr && request.sampling.options.repetition_penalty == 1;
}

}  // namespace

DeviceDrafter::DeviceDrafter(LanguageModel& model, std::unique_ptr<Drafter> on_host,
                             int max_context, int max_requests, int vocab_size)
    : model_(model), on_host_(std::move(on_host)), logits_(model, max_requests) {
  SPECDEC_CHECK(model.feeds_from_device(), "a model that can be fed from its device");
  if (vocab_size > 0) {
    sampler_ = model.backend().make_sampler({.vocab_size = vocab_size, .rows = max_requests});
  }
  const auto requests = static_cast<std::size_t>(max_requests);
  tokens_ =
      DeviceArray<std::int32_t>(model.backend(), requests * static_cast<std::size_t>(max_context));
  host_tokens_.reserve(tokens_.size());
  drafting_.reserve(requests);
  batch_.reserve(requests);
  sequences_.reserve(requests);
  choices_.reserve(requests);
}

// [snippet device-draft]
void DeviceDrafter::draft(std::span<const DraftRequest> requests) {
  if (!std::ranges::all_of(requests, runs_on)) return on_host_->draft(requests);
  drafting_.clear();
  for (const DraftRequest& request : requests) {
    request.drafts->clear();
    if (request.spec_length > 0) drafting_.push_back(&request);
  }
  // Sorted by K, the largest first: in every step, the requests that still draft come first.
  std::ranges::sort(drafting_, std::greater(), &DraftRequest::spec_length);
  Requests still = drafting_;
  for (int step = 0;; step++) {
    while (!still.empty() && still.back()->spec_length <= step)
      still = still.first(still.size() - 1);
    if (still.empty()) break;
    const DeviceRows logits = logits_.rows(0, int_size(still));
    std::int32_t* ids = tokens_.data() + static_cast<std::size_t>(step) * drafting_.size();
    if (step == 0) {
      feed_contexts(still, logits);
    } else {
      feed_chosen(still, ids - drafting_.size(), logits);
    }
    choose(still, step, logits, ids);
    forwards_++;
  }
  take_drafts(drafting_);
}
// [end snippet device-draft]

void DeviceDrafter::feed_contexts(Requests requests, DeviceRows logits) {
  batch_.clear();
  for (const DraftRequest* r : requests) {
    batch_.push_back({r->sequence, uncached(model_, r->sequence, r->context), 1});
  }
  model_.forward(batch_, logits);
}

void DeviceDrafter::feed_chosen(Requests requests, const std::int32_t* ids, DeviceRows logits) {
  sequences_.clear();
  for (const DraftRequest* r : requests) sequences_.push_back(r->sequence);
  model_.forward_chosen(sequences_, ids, logits);
}

void DeviceDrafter::choose(Requests requests, int step, ConstDeviceRows logits, std::int32_t* ids) {
  if (sampler_ == nullptr) return model_.backend().argmax_on_device(logits, ids);
  choices_.clear();
  for (const DraftRequest* r : requests) {
    choices_.push_back(draft_choice(r->sampling, {}, int_size(r->context) + step,
                                    r->drafts->device_probs_to_fill(step)));
  }
  sampler_->choose_on_device(logits, choices_, ids);
}

// Copies all tokens to the host. This is the only wait for the device.
void DeviceDrafter::take_drafts(Requests requests) {
  if (requests.empty()) return;
  const std::size_t n = requests.size();
  host_tokens_.resize(static_cast<std::size_t>(requests.front()->spec_length) * n);
  model_.backend().download(tokens_.data(), host_tokens_.data(),
                            host_tokens_.size() * sizeof(TokenId));
  for (std::size_t r = 0; r < n; r++) {
    const DraftRequest& request = *requests[r];
    for (int i = 0; i < request.spec_length; i++) {
      const TokenId token = host_tokens_[static_cast<std::size_t>(i) * n + r];
      if (token < 0 && sampler_ == nullptr) fail_not_numbers();
      add_chosen_on_device(*request.drafts, request.sampling, token);
    }
  }
}

}  // namespace specdec
