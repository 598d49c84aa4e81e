#pragma once
#include <cstdint>
#include <span>

#include "kernels/device_memory.h"

namespace specdec {

// Chooses tokens where the logits are, for a backend with its own memory: what common/sampling and
// stage 5 do on the host. Only ids, counts and flags come back.
//
// Distributions are float64 and equal the host's bit for bit, and so do all draws by inversion and
// all decisions. Both sides follow these rules:
// - scores (logits, after a penalty) are float32, and filters compare them;
// - weights are e^((score - peak) x (1 / temperature)) in float64 by the same operations
//   (kernels/exponential64.h), probabilities are weights x (1 / their sum);
// - top-p adds weights as integers, multiples of kWeightUnit, so their order does not matter;
// - sums in float64 have one order (below).
// Only a race takes a logarithm, whose last bit may differ on a GPU: if two arrivals are that
// close, another token may win. The result for a row or a round depends only on that row or round,
// bit for bit.

// The order of sums over a vocabulary. Tokens are added in segments of 256. Within a segment,
// partial sum l adds tokens l, l + 32, ...; then a tree adds l and l + 16, l + 8, l + 4, l + 2,
// l + 1. Running sums, first over the segments and then over the tokens of one, advance in rows of
// 32: within a row, value l adds the values 1, 2, 4, 8 and 16 places before it (Hillis and Steele),
// then the sum of all rows before. The total is the last running sum of the segments.
inline constexpr int kSumLanes = 32;
inline constexpr int kSegment = 256;

// The likeliest token has weight 1, so fewer than 2^20 tokens weigh less than 2^64 units.
inline constexpr double kWeightUnit = 0x1p-44;

// How a row of logits becomes a distribution: SamplingOptions and probabilities() of
// common/sampling/distribution.h. REQUIRES: values in the ranges given there.
struct RowSampling {
  double temperature = 0;
  int top_k = 0;
  double top_p = 1;
  double repetition_penalty = 1;
  // Host memory, ids of at least 0; read only if there is a penalty.
  std::span<const std::int32_t> history = {};
};

enum class DrawBy {
  kInversion,  // sample(): the cumulative distribution, in the order of ids
  kRace,       // Dice::race(): the Gumbel-max trick, as a race of exponential arrival times
  kLargest,    // the largest probability, the lowest id among equals
};

// How one token is chosen from a row of logits.
struct Choice {
  RowSampling sampling = {};
  DrawBy by = DrawBy::kInversion;
  std::uint64_t seed = 0;
  int position = 0;           // of the token
  std::uint32_t purpose = 0;  // of the draw, for kInversion
  double* probs = nullptr;    // device memory, [vocab_size]: receives the distribution
};

// [snippet verification-rule]
// When a draft is accepted. p, q: its probability in the target's and in the draft's distribution.
enum class AcceptWhen {
  kUniformBelowRatio,   // a uniform is below p / (lenience q)
  kTargetAtLeastDraft,  // p >= q
  kOwnTokenMatches,     // the target's own token is the draft
  kNearOwnToken,        // p >= lenience times the probability of the target's own token
};

// The weights, not normalised, from which the token after a rejected draft is drawn.
enum class CorrectFrom {
  kResidual,  // the residual distribution: max(0, p - q)
  kSurplus,   // p - q where p >= q, elsewhere p
  kTarget,    // p
  kOwnToken,  // nothing: it is the target's own token
};

// A verification rule, composed of blocks. The default is speculative sampling.
struct VerificationRule {
  AcceptWhen accept = AcceptWhen::kUniformBelowRatio;
  bool draft_is_certain = false;  // q is 1 for the draft and 0 for all other tokens
  bool envelope = false;  // the ratio is divided by M, the largest p / q of all tokens (at least 1)
  CorrectFrom correction = CorrectFrom::kResidual;
  DrawBy own_token = DrawBy::kInversion;  // how the target draws its own tokens and the bonus
};
// [end snippet verification-rule]

// The drafts of one request that judge() decides on. REQUIRES: each has a probability above 0 in
// its draft_probs, as every token drawn from them has.
struct DraftedRound {
  ConstDeviceRows logits = {};                // [drafts + 1, V] of the target
  std::span<const std::int32_t> drafts = {};  // host memory
  // Host memory, one per draft: device memory [vocab_size], or null if the draft was certain.
  std::span<const double* const> draft_probs = {};
  RowSampling sampling = {};  // its history: the tokens before the first draft; the history of row
                              // i also includes the drafts before i
  VerificationRule rule = {};
  double lenience = 1;  // in (0, 1]
  std::uint64_t seed = 0;
  int position = 0;  // of the first draft
};

// The result for a round, ignoring any stop condition inside it.
struct Verdict {
  int accepted = 0;         // drafts
  std::int32_t token = -1;  // the next one, correction or bonus; -1: row `accepted` of the logits
                            // holds no distribution
};

// How the children of a tree's node are chosen from a row of logits.
enum class BranchBy {
  kDraws,          // independent draws by inversion
  kDistinctDraws,  // draws without replacement: the earlier tokens are removed, the rest normalised
  kLikeliest,      // the likeliest, the lower id first among equals; nothing is random
};

// Several tokens for one row of logits.
struct Branch {
  RowSampling sampling = {};                // its history: the tokens before the tree
  std::span<const std::int32_t> path = {};  // host memory: the tree's tokens up to this row
  BranchBy by = BranchBy::kDraws;
  int count = 0;
  // Draws are races with the target's noise. With kDraws, only the first one is, because another
  // race would give the same token.
  bool races = false;
  std::uint64_t seed = 0;
  int position = 0;           // of the tokens
  std::uint32_t purpose = 0;  // of the draws
  int first_index = 0;        // of the draws: this one, the next, ...
  // Device memory, receives the distributions that the tokens are drawn from: [V] for kDraws, or
  // null; [count, V] for kDistinctDraws; null for kLikeliest.
  double* probs = nullptr;
};

// One chosen token, and its probability in the row's distribution.
struct BranchToken {
  std::int32_t token = -1;  // -1: no further token has a probability above 0; if it is a row's
                            // first: the row holds no distribution
  double prob = 0;
};

// How the drafts after one node of a tree are judged.
enum class JudgeTree {
  kOneByOne,  // each against the normalised residual that the earlier ones left of the target; the
              // correction is drawn from the residual after the last one
  kTogether,  // K-sequential selection: p / (rho q) for each, then one residual for all
  kPath,      // block verification: a chain, judged as a whole
};

// A rule for trees, composed of blocks.
struct TreeRule {
  JudgeTree judge = JudgeTree::kOneByOne;
  VerificationRule draft = {};  // how kOneByOne judges a draft; every judge uses own_token
};

struct DraftedNode {
  std::int32_t token = 0;
  int parent = -1;  // the index of an earlier node; -1: the root
};

// One trial: a drafted token that is judged. Several trials may share a node.
struct DraftedTrial {
  int node = 0;                   // of its token
  const double* probs = nullptr;  // device memory, [vocab_size]; null: the draft was certain
};

// The tree of drafts of one request that judge_trees() decides on. All spans are host memory.
// REQUIRES: as for a DraftedRound; for kTogether, the trials after a node have the same
// distribution; for kPath, each node's parent is the node before it, and it has one trial.
struct DraftedTree {
  ConstDeviceRows logits = {};  // [nodes + 1, V] of the target: after the root, after each node
  std::span<const DraftedNode> nodes = {};
  // Grouped by the node that they follow, in the order drafted; each node has at least one.
  std::span<const DraftedTrial> trials = {};
  RowSampling sampling = {};  // its history: the tokens before the tree; a row's own history also
                              // includes its path
  TreeRule rule = {};
  std::uint64_t seed = 0;
  int position = 0;     // of the tokens that follow the root
  int level_draws = 0;  // draw index = the draft's number + level * level_draws
};

// The result for a tree, ignoring any stop condition inside its path.
struct TreeVerdict {
  int accepted = 0;         // nodes of the path
  std::int32_t token = -1;  // the next one, correction or bonus; -1: the row after the path (for
                            // kPath, any row) holds no distribution
};

// The result for the drafts at one level of the path.
struct TestedPlace {
  std::int32_t node = -1;  // the accepted one; -1: none, the path ends here
  int tested = 0;          // trials
};

// Upper bounds of what one call of a sampler processes; they size its memory.
struct SamplerRoom {
  int vocab_size = 0;  // V: of distributions
  int rows = 1;        // of logits; a round has one more than drafts
  int rounds = 1;      // or trees
  int history = 0;     // tokens of all histories that have a penalty
  int trials = 0;      // of all trees together; or tokens of all branches
  int levels = 0;      // of a tree
};

// Allocates all memory at construction. A call sends one parcel to the device and makes at most one
// copy back, and is finished when it returns, except choose_on_device(). The program aborts if
// sizes disagree or exceed the room.
class Sampler {
 public:
  virtual ~Sampler() = default;

  // Chooses a token for each row of logits. If logits are wider than the vocabulary, the rest is
  // padding; if they are narrower, the missing tokens have probability zero. tokens: host memory,
  // [rows]; -1 if a row holds no distribution (a NaN, or only minus infinity).
  virtual void choose(ConstDeviceRows logits, std::span<const Choice> choices,
                      std::span<std::int32_t> tokens) = 0;

  // The same with tokens in device memory, [rows], in order with the backend's operations, without
  // waiting. The caller may free the choices when the call returns.
  virtual void choose_on_device(ConstDeviceRows logits, std::span<const Choice> choices,
                                std::int32_t* tokens) = 0;

  // Judges rounds side by side. acceptance_probs: host memory, one for each draft of each round, in
  // order: sum min(p, q) if the draft was tested, 0 otherwise. If it is empty, the statistics are
  // skipped, which saves a pass over both distributions of every draft.
  virtual void judge(std::span<const DraftedRound> rounds, std::span<Verdict> verdicts,
                     std::span<double> acceptance_probs) = 0;

  // Chooses several tokens for each row of logits. tokens: host memory, row after row.
  virtual void branch(ConstDeviceRows logits, std::span<const Branch> branches,
                      std::span<BranchToken> tokens) = 0;

  // Judges trees side by side. places: host memory, [trees, room.levels]: for each tree, the
  // results for the drafts after the root, after the first node of the path, and so on. After the
  // end of the path, no drafts are tested.
  virtual void judge_trees(std::span<const DraftedTree> trees, std::span<TreeVerdict> verdicts,
                           std::span<TestedPlace> places) = 0;
};

}  // namespace specdec
