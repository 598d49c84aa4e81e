#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/language_model.h"
#include "common/sampling/bad_logits.h"
#include "common/speculation/drafter.h"
#include "stages/10_beam_search/beam_search.h"
#include "stages/10_beam_search/tree_cache.h"

namespace specdec {

// The beams of one request that a drafter continues.
struct BeamsToDraft {
  int request = 0;                 // a number from create()
  TextTree* tree = nullptr;        // drafts are added to it
  std::span<const int> leaves;     // the node of each beam, the best first
  std::span<const double> scores;  // of the beams, by the target
  const BeamSearch* search = nullptr;
  int width = 0;  // u, the most drafts on a level
  int steps = 0;  // K, the most levels
};

// Guesses how beams go on.
class BeamDrafter {
 public:
  virtual ~BeamDrafter() = default;

  virtual int create() = 0;
  virtual void release(int request) = 0;
  // Adds drafts to each request's tree: at most `steps` levels of at most `width` nodes.
  virtual void draft(std::span<const BeamsToDraft> requests) = 0;
  // After tree.keep(), which returned `became`: forgets what is gone.
  virtual void keep(int request, const TextTree& tree, std::span<const int> became) = 0;
  virtual int context_limit() const { return std::numeric_limits<int>::max(); }
  virtual std::int64_t forwards() const { return 0; }  // passes of draft models so far
};

// Drafts nothing: plain beam search.
class NoBeamDrafter final : public BeamDrafter {
 public:
  int create() override { return 0; }
  void release(int) override {}
  void draft(std::span<const BeamsToDraft>) override {}
  void keep(int, const TextTree&, std::span<const int>) override {}
};

// A draft model that runs beam search of width u from the present beams and their scores (Leviathan
// et al., appendix A.4). Each level is one pass, for all requests together. The last level is never
// fed.
class ModelBeamDrafter final : public BeamDrafter {
 public:
  using Tell = std::function<void(const BadLogits& damage)>;

  // max_rows: the most rows of logits in a pass. tell: called when the model has no distribution;
  // then the drafts end there. REQUIRES: the model outlives this object, and its cache has room for
  // the texts and all drafts.
  ModelBeamDrafter(LanguageModel& model, int max_rows, Tell tell = {});

  int create() override;
  void release(int request) override;
  void draft(std::span<const BeamsToDraft> requests) override;
  void keep(int request, const TextTree& tree, std::span<const int> became) override;
  int context_limit() const override { return model_.max_seq_len(); }
  std::int64_t forwards() const override { return forwards_; }

 private:
  // How a request's drafts grow.
  struct Growth {
    explicit Growth(LanguageModel& model) : cache(model) {}
    TreeCache cache;
    std::vector<int> level;      // the nodes that the next pass continues
    std::vector<double> scores;  // of these nodes
  };

  Segment segment(const BeamsToDraft& request, int depth);
  void extend(const BeamsToDraft& request, int first_row);

  LanguageModel& model_;
  LogitsBuffer logits_;  // [max_rows, V]
  Tell tell_;
  std::vector<std::unique_ptr<Growth>> growths_;  // by request; null: free
  std::int64_t forwards_ = 0;
};

// A drafter of stages 4 to 8 that drafts for each beam by itself: chains or trees of up to u / w
// nodes per level.
class EachBeamDrafter final : public BeamDrafter {
 public:
  // drafts: memory for the drafts of one beam. REQUIRES: the drafter outlives this object.
  EachBeamDrafter(Drafter& drafter, Drafts drafts)
      : drafter_(drafter), drafts_(std::move(drafts)) {}

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
  struct Request {
    bool taken = false;
    std::vector<Reader> readers = {};  // as many as it had beams at most
  };

  Reader& reader_of(Request& request, std::span<const TokenId> text);
  void draft(const BeamsToDraft& request);

  Drafter& drafter_;
  Drafts drafts_;
  std::vector<Request> requests_;
};

}  // namespace specdec
