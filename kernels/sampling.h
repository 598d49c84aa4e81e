#pragma once
#include <cstdint>
#include <span>

#include "kernels/device_memory.h"

namespace specdec {

// Choosing tokens where the logits are, for a backend whose memory is not the host's: what
// common/sampling and stage 5 do on the host. Only ids, counts and flags come back.
//
// Distributions are float64, and they are the host's, bit for bit; so every draw by inversion and
// every decision is the host's. Both sides hold to this:
// - scores (logits, after a penalty) are float32, and filters compare them;
// - weights are e^((score - peak) x (1 / temperature)) in float64 by the same operations
//   (kernels/exponential64.h), probabilities are weights x (1 / their sum);
// - top-p adds weights up as integers, multiples of kWeightUnit, whose sum has no order;
// - sums in float64 have one order (below).
// Only a race takes a logarithm, whose last bit may differ on a GPU: its winner could be another
// where two arrivals are that close. What comes of a row or a round depends on that row or round
// alone, bit for bit.

// The order of sums over a vocabulary. Tokens are added in segments of 256. Within one, partial sum
// l takes tokens l, l + 32, ...; then a tree adds l and l + 16, l + 8, l + 4, l + 2, l + 1. Running
// sums, of the segments and then of the tokens in one segment, go on in rows of 32: within a row,
// value l adds what is 1, 2, 4, 8, 16 places before it (Hillis and Steele), and to that the sum of
// all rows before. The total is the last running sum of the segments.
inline constexpr int kSumLanes = 32;
inline constexpr int kSegment = 256;

// The likeliest token weighs 1, so less than 2^20 tokens weigh less than 2^64 units.
inline constexpr double kWeightUnit = 0x1p-44;

// How a row of logits becomes a distribution: SamplingOptions and probabilities() of
// common/sampling/distribution.h. REQUIRES: numbers in the range that they have there.
struct RowSampling {
  double temperature = 0;
  int top_k = 0;
  double top_p = 1;
  double repetition_penalty = 1;
  // Host memory, ids of at least 0; looked at only where there is a penalty.
  std::span<const std::int32_t> history = {};
};

enum class DrawBy {
  kInversion,  // sample(): the cumulative distribution, in the order of ids
  kRace,       // Dice::race()
  kLargest,    // the largest probability, the lowest id among equals
};

// A token for one row of logits.
struct Choice {
  RowSampling sampling = {};
  DrawBy by = DrawBy::kInversion;
  std::uint64_t seed = 0;
  int position = 0;           // of the token
  std::uint32_t purpose = 0;  // of the draw, for kInversion
  double* probs = nullptr;    // device memory, [vocab_size]: gets the distribution
};

// [snippet verification-rule]
// When a draft is accepted. p, q: its probability in the target's and in the draft's distribution.
enum class AcceptWhen {
  kUniformBelowRatio,   // a uniform is below p / (lenience q)
  kTargetAtLeastDraft,  // p >= q
  kOwnTokenMatches,     // the target's own token is the draft
  kNearOwnToken,        // p >= lenience times the probability of the target's own token
};

// What is drawn in place of a rejected draft, by weights that need not be normalised.
enum class CorrectFrom {
  kResidual,  // max(0, p - q)
  kSurplus,   // p - q where p >= q, elsewhere p
  kTarget,    // p
  kOwnToken,  // nothing: it is the target's own token
};

// A rule of verification, put together from blocks. The default is that of speculative sampling.
struct VerificationRule {
  AcceptWhen accept = AcceptWhen::kUniformBelowRatio;
  bool draft_is_certain = false;  // q counts as 1 for the draft and 0 for all else
  bool envelope = false;  // the ratio is divided by M, the largest p / q of all tokens (at least 1)
  CorrectFrom correction = CorrectFrom::kResidual;
  DrawBy own_token = DrawBy::kInversion;  // how the target draws its own token; the bonus is one
};
// [end snippet verification-rule]

// The drafts of one request, to be judged. REQUIRES: each has a probability above 0 in its
// draft_probs, as what was drawn from them has.
struct DraftedRound {
  ConstDeviceRows logits = {};                // [drafts + 1, V] of the target
  std::span<const std::int32_t> drafts = {};  // host memory
  // Host memory, one a draft: device memory [vocab_size], or null where the draft was certain.
  std::span<const double* const> draft_probs = {};
  RowSampling sampling = {};  // its history: what is before the first draft; row i has the drafts
                              // before i as well
  VerificationRule rule = {};
  double lenience = 1;  // in (0, 1]
  std::uint64_t seed = 0;
  int position = 0;  // of the first draft
};

// What becomes of it, as if the text went on to the end of the round.
struct Verdict {
  int accepted = 0;         // drafts that stay
  std::int32_t token = -1;  // the one after them, correction or bonus; -1: row `accepted` of the
                            // logits holds no distribution
};

// Which tokens are asked for after a row of logits, where a tree branches.
enum class BranchBy {
  kDraws,          // drawn by inversion, each by itself
  kDistinctDraws,  // drawn one after another, each from what the earlier ones left, normalised
  kLikeliest,      // the likeliest, the lower id first among equals: no chance
};

// Several tokens for one row of logits.
struct Branch {
  RowSampling sampling = {};                // its history: what is before the tree
  std::span<const std::int32_t> path = {};  // host memory: tokens of the tree before the row's
  BranchBy by = BranchBy::kDraws;
  int count = 0;
  // Draws are races with the target's noise; of kDraws the first one alone, as the others would
  // give its token again.
  bool races = false;
  std::uint64_t seed = 0;
  int position = 0;           // of the tokens
  std::uint32_t purpose = 0;  // of the draws
  int first_index = 0;        // of the draws: this one, the next, ...
  // Device memory, gets what the tokens are drawn from: [V] for kDraws, or null; [count, V] for
  // kDistinctDraws; null for kLikeliest.
  double* probs = nullptr;
};

// One of them, and its probability in the row's distribution.
struct BranchToken {
  std::int32_t token = -1;  // -1: no further token has a probability above 0; for the first token
                            // of a row: it holds no distribution
  double prob = 0;
};

// [snippet tree-rule]
// How drafts that follow one node of a tree are judged.
enum class JudgeTree {
  kOneByOne,  // each against what the earlier ones left of the target: the weights of the rule's
              // correction, normalised; the correction is drawn from what the last one leaves
  kTogether,  // K-sequential selection: p / (rho q) for each, then one residual for all
  kPath,      // block verification: a chain, judged as a whole
};

// A rule for trees, put together from blocks.
struct TreeRule {
  JudgeTree judge = JudgeTree::kOneByOne;
  VerificationRule draft = {};  // how kOneByOne judges a draft; own_token holds for all
};
// [end snippet tree-rule]

struct DraftedNode {
  std::int32_t token = 0;
  int parent = -1;  // the number of an earlier node; -1: it follows the root
};

// A draft that is tried: several may share their node.
struct DraftedTrial {
  int node = 0;                   // of its token
  const double* probs = nullptr;  // device memory, [vocab_size]; null: it was certain
};

// The tree of drafts of one request, to be judged. All spans are host memory. REQUIRES: as for a
// DraftedRound; for kTogether the trials after a node have the same distribution; for kPath each
// node follows the one before it and has one trial.
struct DraftedTree {
  ConstDeviceRows logits = {};  // [nodes + 1, V] of the target: after the root, after each node
  std::span<const DraftedNode> nodes = {};
  // Those after one node together, in the order in which they were drafted; each node has one.
  std::span<const DraftedTrial> trials = {};
  RowSampling sampling = {};  // its history: what is before the tree; a row has its path as well
  TreeRule rule = {};
  std::uint64_t seed = 0;
  int position = 0;     // of the tokens that follow the root
  int level_draws = 0;  // the index of a draw is its draft's number and the level times this
};

// What becomes of it, as if the text went on to the end of the path.
struct TreeVerdict {
  int accepted = 0;         // nodes of the path
  std::int32_t token = -1;  // the one after them, correction or bonus; -1: the row after them (for
                            // kPath, any row) holds no distribution
};

// What became of the drafts at one place of the path.
struct TestedPlace {
  std::int32_t node = -1;  // where the path goes on; -1: nowhere
  int tested = 0;          // trials
};

// The most that one call of a sampler is asked for; sizes its memory.
struct SamplerRoom {
  int vocab_size = 0;  // V: of distributions
  int rows = 1;        // of logits; a round has one more than drafts
  int rounds = 1;      // or trees
  int history = 0;     // tokens of all histories together that a penalty looks at
  int trials = 0;      // of all trees together; or tokens of all branches
  int levels = 0;      // of a tree
};

// All memory is taken at construction. A call copies once to the device and at most once back, and
// is done when it returns, but for choose_on_device(). Sizes agree and lie within the room, or the
// program aborts.
class Sampler {
 public:
  virtual ~Sampler() = default;

  // A token for each row of logits. The logits may be wider than distributions, what is behind is
  // padding, or narrower: what they lack has probability zero. tokens: host memory, [rows]; -1
  // where a row holds no distribution (a NaN, or nothing but minus infinity).
  virtual void choose(ConstDeviceRows logits, std::span<const Choice> choices,
                      std::span<std::int32_t> tokens) = 0;

  // The same with tokens in device memory, [rows], in order with the backend's operations: the host
  // does not wait. The choices are free when the call returns.
  virtual void choose_on_device(ConstDeviceRows logits, std::span<const Choice> choices,
                                std::int32_t* tokens) = 0;

  // Judges rounds side by side. acceptance_probs: host memory, one for each draft of each round, in
  // order: sum min(p, q) for the drafts that were tested, 0 for the others. Or empty, where no
  // statistics are wanted: they take a pass over both distributions of every draft.
  virtual void judge(std::span<const DraftedRound> rounds, std::span<Verdict> verdicts,
                     std::span<double> acceptance_probs) = 0;

  // Tokens for each row of logits. tokens: host memory, one row's after the other's.
  virtual void branch(ConstDeviceRows logits, std::span<const Branch> branches,
                      std::span<BranchToken> tokens) = 0;

  // Judges trees side by side. places: host memory, [trees, room.levels]: of each tree, what became
  // of the drafts after the root, after the first node of the path, and so on; none were tested
  // behind its end.
  virtual void judge_trees(std::span<const DraftedTree> trees, std::span<TreeVerdict> verdicts,
                           std::span<TestedPlace> places) = 0;
};

}  // namespace specdec
