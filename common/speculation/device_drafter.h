#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "common/speculation/drafter.h"

namespace specdec {

// A ModelDrafter for a device that chooses tokens in its own memory. There, each step feeds its
// token to the next step, so the host waits once for all drafts and not once per draft. The drafts
// are the same. A request with a gate or a repetition penalty needs the host between two steps; a
// call with such a request goes to the drafter `on_host`.
class DeviceDrafter final : public Drafter {
 public:
  // on_host: a drafter with the same model, which also keeps the sequences. max_context,
  // max_requests: as for ModelDrafter. vocab_size: V of the drafts' distributions; 0 if drafting is
  // greedy and there are none. REQUIRES: model.feeds_from_device(); the model outlives this object;
  // its device keeps the drafts' distributions, if there are any.
  DeviceDrafter(LanguageModel& model, std::unique_ptr<Drafter> on_host, int max_context,
                int max_requests, int vocab_size);

  SequenceId create() override { return on_host_->create(); }
  void release(SequenceId sequence) override { on_host_->release(sequence); }
  void draft(std::span<const DraftRequest> requests) override;
  void prefill(std::span<const Segment> chunks) override { on_host_->prefill(chunks); }
  int uncached_before(SequenceId sequence, int end) const override {
    return on_host_->uncached_before(sequence, end);
  }
  void truncate(SequenceId sequence, int length) override { on_host_->truncate(sequence, length); }
  int length(SequenceId sequence) const override { return on_host_->length(sequence); }
  int context_limit() const override { return on_host_->context_limit(); }
  std::int64_t forwards() const override { return forwards_ + on_host_->forwards(); }

 private:
  using Requests = std::span<const DraftRequest* const>;

  void feed_contexts(Requests requests, DeviceRows logits);
  void feed_chosen(Requests requests, const std::int32_t* ids, DeviceRows logits);
  void choose(Requests requests, int step, ConstDeviceRows logits, std::int32_t* ids);
  void take_drafts(Requests requests);

  LanguageModel& model_;
  std::unique_ptr<Drafter> on_host_;
  std::unique_ptr<Sampler> sampler_;  // null: drafts are greedy
  LogitsBuffer logits_;               // [max_requests, V]
  DeviceArray<std::int32_t> tokens_;  // [steps, requests of the call]
  std::vector<TokenId> host_tokens_;
  // Scratch for one call and one step: up to max_requests entries each.
  std::vector<const DraftRequest*> drafting_;
  std::vector<Segment> batch_;
  std::vector<SequenceId> sequences_;
  std::vector<Choice> choices_;
  std::int64_t forwards_ = 0;
};

}  // namespace specdec
