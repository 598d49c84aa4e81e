#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "common/speculation/drafter.h"
#include "common/speculation/target_rows.h"
#include "stages/10_beam_search/beam_drafter.h"

namespace specdec {

// A drafter of stages 4 to 9 that drafts for each beam by itself. Their chains or trees are merged:
// each level gets the u best nodes, by the beam's score and what the drafter finds likely.
class EachBeamDrafter final : public BeamDrafter {
 public:
  // drafts: memory for the drafts of one beam. rows: what the drafter reads of the target; null:
  // nothing. REQUIRES: drafter and rows outlive this object.
  EachBeamDrafter(Drafter& drafter, Drafts drafts, TargetRows* rows = nullptr)
      : drafter_(drafter), drafts_(std::move(drafts)), rows_(rows) {}

  using BeamDrafter::create;
  int create() override;
  void release(int request) override;
  void draft(std::span<const BeamsToDraft> requests) override;
  void keep(int, const TextTree&, std::span<const int>) override {}
  int context_limit() const override { return drafter_.context_limit(); }
  std::int64_t forwards() const override { return drafter_.forwards(); }

 private:
  // A sequence of the drafter, and the text that it has read.
  struct Reader {
    SequenceId sequence = 0;
    std::vector<TokenId> text = {};
    bool reads = false;  // in this round
  };
  using Readers = std::vector<Reader>;  // as many as the request had beams at most

  Reader& reader_of(Readers& readers, std::span<const TokenId> text);
  void draft(const BeamsToDraft& request);
  SequenceId show_target(const BeamsToDraft& request, int leaf);
  static void merge(std::span<const Drafts> drafts, const BeamsToDraft& request);

  Drafter& drafter_;
  Drafts drafts_;
  TargetRows* rows_;
  int created_ = 0;
  std::map<int, Readers> readers_;  // by request
};

}  // namespace specdec
