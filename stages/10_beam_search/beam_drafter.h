#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "common/sampling/bad_logits.h"
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
  int width = 0;                      // u, the most drafts on a level
  int steps = 0;                      // K, the most levels
  const TreeCache* target = nullptr;  // for drafters that read the target's rows
};

// Guesses how beams go on.
class BeamDrafter {
 public:
  virtual ~BeamDrafter() = default;

  virtual int create() = 0;
  // The same in a batch. A drafter with a model uses this sequence of it, which the caller
  // releases.
  virtual int create(SequenceId) { return create(); }
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
  using BeamDrafter::create;
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
  int create(SequenceId sequence) override;
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
  int created_ = 0;
  std::map<int, Growth> growths_;  // by request
  std::int64_t forwards_ = 0;
};

}  // namespace specdec
