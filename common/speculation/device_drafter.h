#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "common/speculation/drafter.h"

namespace specdec {

// A ModelDrafter for a device that chooses tokens in its own memory. What one step chooses is fed
// to the next one there, so the host waits once for all drafts and not once for each; the drafts
// are the same. A request whose next step depends on what the host knows of the last one, since it
// has a gate or a repetition penalty, is drafted for by the other drafter.
class DeviceDrafter final : public Drafter {
 public:
  // on_host: a drafter with the same model, which does the rest. max_context, max_requests: as of a
  // ModelDrafter. vocab_size: of the drafts' distributions; 0: they are greedy and have none.
  // REQUIRES: the model outlives this object and feeds_from_device(); drafts are on its device, or
  // have no distributions.
  DeviceDrafter(LanguageModel& model, std::unique_ptr<Drafter> on_host, int max_context,
                int max_requests, int vocab_size);

  SequenceId create() override { return on_host_->create(); }
  void release(SequenceId sequence) override { on_host_->release(sequence); }
  void draft(std::span<const DraftRequest> requests) override;
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
  // Of the call, and of a step: up to max_requests each.
  std::vector<const DraftRequest*> drafting_;
  std::vector<Segment> batch_;
  std::vector<SequenceId> sequences_;
  std::vector<Choice> choices_;
  std::int64_t forwards_ = 0;
};

}  // namespace specdec
