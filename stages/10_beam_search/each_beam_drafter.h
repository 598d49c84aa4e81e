#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "common/speculation/drafter.h"
#include "stages/10_beam_search/beam_drafter.h"

namespace specdec {

// A drafter of stages 4 to 8 that drafts for each beam by itself. Their chains or trees are merged,
// those of the best beams first, until a level has u nodes.
class EachBeamDrafter final : public BeamDrafter {
 public:
  // drafts: memory for the drafts of one beam. REQUIRES: the drafter outlives this object.
  EachBeamDrafter(Drafter& drafter, Drafts drafts)
      : drafter_(drafter), drafts_(std::move(drafts)) {}

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
  static void merge(std::span<const Drafts> drafts, const BeamsToDraft& request);

  Drafter& drafter_;
  Drafts drafts_;
  int created_ = 0;
  std::map<int, Readers> readers_;  // by request
};

}  // namespace specdec
