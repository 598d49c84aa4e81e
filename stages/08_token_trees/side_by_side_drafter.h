#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/speculation/drafter.h"
#include "stages/07_adaptive_drafting/raised_draws.h"

namespace specdec {

// The capacity of a round in which several drafters draft for one tree.
Capacity side_by_side(std::span<const Capacity> parts);

// Several draft models side by side (SpecInfer, Miao et al. 2024): each drafts chains of its own,
// and one tree holds the chains of all. After each node, the trials of the first model come first,
// and each trial has the distribution of the model that drew it. So the order of the trials is
// fixed before any of them is drawn.
//
// No model reads another one's drafts. After a round, a model keeps as much of the accepted path as
// its own chains contain, and is fed the rest in the next round.
class SideBySideDrafter final : public Drafter {
 public:
  // levels: of the longest chain. vocab_size: V of the distributions. max_requests: the most
  // requests per call. REQUIRES: each drafter drafts capacity(1).trials chains, with distributions
  // on the host; no request has a gate.
  SideBySideDrafter(std::vector<std::shared_ptr<Drafter>> drafters, int levels, int vocab_size,
                    int max_requests = 1);

  SequenceId create() override;
  void release(SequenceId sequence) override;
  void draft(std::span<const DraftRequest> requests) override;
  void prefill(std::span<const Segment> chunks) override;
  // Until the first drafts, all models have cached equally much.
  int uncached_before(SequenceId sequence, int end) const override {
    return sides_.front().drafter->uncached_before(sides_.front().sequences[sequence], end);
  }
  void truncate(SequenceId sequence, int length) override;
  void keep(SequenceId sequence, int length, std::span<const int> path) override;
  int length(SequenceId sequence) const override;  // of the model that has cached least
  int context_limit() const override;
  std::int64_t forwards() const override;
  Capacity capacity(int spec_length) const override;

 private:
  // One model, its buffers for the requests of a call, and its part of each sequence.
  struct Side {
    std::shared_ptr<Drafter> drafter;
    int first_draw = 0;          // the index of its first draw on a level
    std::vector<Drafts> drafts;  // [max_requests]
    std::vector<RaisedDraws> draws;
    std::vector<DraftRequest> requests;
    std::vector<SequenceId> sequences;        // by sequence
    std::vector<std::vector<int>> own_nodes;  // by sequence; for each node of the tree, its own
    std::vector<int> numbers;                 // for each of its distributions, that of the tree
  };

  void draft_side(Side& side, std::span<const DraftRequest> requests);
  void merge(const DraftRequest& request, std::size_t i);
  static void add_trials(Side& side, const Drafts& own, const DraftRequest& request, int node);
  static int number_in(Drafts& tree, Side& side, const Drafts& own, const Drafts::Trial& trial);

  std::vector<Side> sides_;
  std::vector<int> contexts_;  // by sequence: tokens of the last context
  std::vector<int> path_;
  std::vector<SequenceId> free_;
};

}  // namespace specdec
