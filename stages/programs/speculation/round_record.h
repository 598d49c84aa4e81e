#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/json_value.h"
#include "common/generation.h"
#include "common/kv_cache.h"
#include "common/speculation/drafter.h"
#include "common/speculation/round.h"
#include "common/speculation/spec_length_policy.h"
#include "stages/programs/show/report.h"

namespace specdec {

// A round and all decisions in it, for --trace and --explain.
struct RoundRecord {
  // A token's probabilities p and q at a position, and in the residual distribution.
  struct Share {
    TokenId token = 0;
    double target_prob = 0, draft_prob = 0, residual = 0;
  };
  // The likeliest tokens of both distributions; `rest` is the sum over all other tokens.
  struct Distributions {
    std::vector<Share> tokens;
    Share rest;
  };
  struct Draft {
    int position = 0;
    TokenId token = 0;
    double draft_prob = 1;
    std::optional<double> draft_uniform;           // none: not drawn by a uniform
    std::optional<double> target_prob;             // none: not tested
    std::optional<double> accept_uniform;          // none: not tested by a uniform
    std::optional<Distributions> distributions{};  // none: not tested
    std::string_view verdict;                      // "accepted", "rejected", "not tested"
  };
  struct Last {
    int position = 0;
    TokenId token = 0;
    bool bonus = false;  // false: a correction
    double target_prob = 0;
    std::optional<double> uniform;
    std::optional<Distributions> distributions{};  // none in a tree
  };
  struct CacheState {
    int length = 0;
    std::vector<std::int32_t> pages;
  };
  struct State {
    CacheState target, draft;
  };

  // Used instead of `drafts` if drafts may branch. Drafts share nodes, but not trials.
  struct Node {
    Drafts::Node drafted;
    int drafts = 1;            // the number of drafts through this node
    std::string_view verdict;  // one of a draft's verdicts, or "not reached"
  };
  struct Trial {
    int node = 0;
    double draft_prob = 1;              // in the distribution that it was drawn from; 1: certain
    std::optional<double> target_prob;  // none: not tested
    std::string_view verdict;           // one of a node's verdicts
  };
  struct Tree {
    std::vector<Node> nodes;
    std::vector<Trial> trials;  // parent by parent, in the order of testing
  };

  Round round;
  std::vector<TokenId> emitted;
  std::vector<Draft> drafts;
  std::optional<Tree> tree;
  std::optional<Last> last;
  std::vector<Note> notes;  // the quantities from which the policy chose K
  State before, after;
  double draft_seconds = 0, verify_seconds = 0, other_seconds = 0;
};

// The inputs of a round's decisions.
struct RoundEvidence {
  const Drafts* drafts = nullptr;
  // The target's distribution, [V], from this row of logits (Round::row_of): it judged the token at
  // the next position, or that token was drawn from it. Valid until the next call.
  std::function<std::span<const double>(int row)> target_probs;
  // is_tree: the drafts may branch. compares_at_once: the target's token is compared with all
  // siblings at once, as in greedy decoding.
  bool is_tree = false, compares_at_once = false;
  std::optional<std::uint64_t> seed = {};  // none: nothing was random
  bool tests_by_uniform = false;           // drafts are tested by a uniform
  bool races = false;  // tokens are drawn by exponential races, so not by a single uniform
  bool corrects_by_residual = false;  // corrections are drawn from norm(max(0, p - q))
  // The purpose of a correction's draw: kTarget if the rule draws the target's own token.
  Purpose correction = Purpose::kResample;
  std::vector<Note> notes = {};  // of the policy that chose K
};

// context: prompt and text, whose last tokens are those that the round emitted.
RoundRecord record_round(const Round& round, std::span<const TokenId> context,
                         const RoundEvidence& evidence);

// A sequence's length and pages. cache: null if there is none; then there are no pages.
RoundRecord::CacheState cache_state(const KvCache* cache, SequenceId sequence, int length);

Json to_json(const RoundRecord::State& state);
Json to_json(const RoundRecord& record);

// Verdicts on drafts.
inline constexpr std::string_view kAccepted = "accepted", kRejected = "rejected",
                                  kNotTested = "not tested", kNotReached = "not reached";

// The token's text as a JSON string, so that it fits on a line; without a tokenizer, its id.
std::string token_text(TokenId token, const Tokenizer* tokenizer);

// A line of explain(): a verdict in its colour, or any other word in blue.
std::string verdict_line(std::string_view verdict, int width, const std::string& text, bool colour);

// The round in a few lines: each draft with q, p, p/q, u and verdict, or the tree; the correction
// or bonus; the lengths of both caches. tokenizer: null if there is none.
std::string explain(const RoundRecord& record, int number, const Tokenizer* tokenizer, bool colour);

}  // namespace specdec
