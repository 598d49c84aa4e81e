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

// A round with everything that was decided in it, for --trace and --explain.
struct RoundRecord {
  // One token of the two distributions at a position, and what is left of it after a rejection.
  struct Share {
    TokenId token = 0;
    double target_prob = 0, draft_prob = 0, residual = 0;
  };
  // Both distributions, the likeliest tokens of either; `rest` sums up all others.
  struct Distributions {
    std::vector<Share> tokens;
    Share rest;
  };
  struct Draft {
    int position = 0;
    TokenId token = 0;
    double draft_prob = 1;
    std::optional<double> draft_uniform;           // none: nothing was drawn
    std::optional<double> target_prob;             // none: never tested
    std::optional<double> accept_uniform;          // none: not tested by a uniform
    std::optional<Distributions> distributions{};  // none: never tested
    std::string_view verdict;                      // "accepted", "rejected", "not tested"
  };
  struct Last {
    int position = 0;
    TokenId token = 0;
    bool bonus = false;  // otherwise the correction
    double target_prob = 0;
    std::optional<double> uniform;
    Distributions distributions;
  };
  struct CacheState {
    int length = 0;
    std::vector<std::int32_t> pages;
  };
  struct State {
    CacheState target, draft;
  };

  // Where drafts may branch, in place of `drafts`: nodes are merged, trials are not.
  struct Node {
    Drafts::Node drafted;
    int drafts = 1;            // that go through it
    std::string_view verdict;  // as of a draft, or "not reached"
  };
  struct Trial {
    int node = 0;
    double draft_prob = 1;              // by what it was drawn from; 1: certain
    std::optional<double> target_prob;  // none: not tested
    std::string_view verdict;           // as of a node
  };
  struct Tree {
    std::vector<Node> nodes;
    std::vector<Trial> trials;  // in the order in which they are tested after their parent
  };

  Round round;
  std::vector<TokenId> emitted;
  std::vector<Draft> drafts;
  std::optional<Tree> tree;
  std::optional<Last> last;
  std::vector<Note> notes;  // what the number of drafts followed from
  State before, after;
  double draft_seconds = 0, verify_seconds = 0, other_seconds = 0;
};

// What the decisions of a round were made from.
struct RoundEvidence {
  const Drafts* drafts = nullptr;
  // The distribution [V] made of the logits of this row (Round::row_of), which judged or gave the
  // token after it; valid until the next call.
  std::function<std::span<const double>(int row)> target_probs;
  // Whether the drafts may branch; and then, whether one token is compared with all siblings at
  // once, as in greedy decoding.
  bool is_tree = false, compares_at_once = false;
  std::optional<std::uint64_t> seed = {};  // none: nothing was random
  bool tests_by_uniform = false;           // whether drafts are accepted by a uniform
  bool races = false;  // whether tokens are drawn by races, which have no one uniform
  bool corrects_by_residual = false;  // whether corrections are drawn from norm(max(0, p - q))
  // What a correction is drawn for: kResample, or kTarget where the target draws its own token.
  Purpose correction = Purpose::kResample;
  std::vector<Note> notes = {};  // of a policy that chooses K
};

// context: the text, the tokens emitted by the round at its end.
RoundRecord record_round(const Round& round, std::span<const TokenId> context,
                         const RoundEvidence& evidence);

// The pages of a sequence and how much they hold; cache null: none.
RoundRecord::CacheState cache_state(const KvCache* cache, SequenceId sequence, int length);

Json to_json(const RoundRecord::State& state);
Json to_json(const RoundRecord& record);

// A token for one line: what would break the line is spelled out. tokenizer: null where there is
// none.
std::string token_text(TokenId token, const Tokenizer* tokenizer);

// A few lines for people: each draft with q, p, p/q, u and verdict, or the tree; the correction or
// bonus; both caches. tokenizer: null where there is none.
std::string explain(const RoundRecord& record, int number, const Tokenizer* tokenizer, bool colour);

}  // namespace specdec
