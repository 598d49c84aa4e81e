#pragma once
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "kernels/int_size.h"
#include "stages/10_beam_search/beam_round.h"
#include "tests/course/probes/facts.h"
#include "tests/table_model.h"

// Searches with given candidates, with tables as models, and caches of trees, for the probe of
// stage 10.
namespace specdec::course {

using Tokens = std::vector<TokenId>;
using Numbers = std::vector<int>;

// What a search has found so far, as facts.
inline void hypotheses_fact(const BeamSearch& search, const std::string& when) {
  Json texts = Json::array();
  std::vector<double> scores;
  for (const Hypothesis& hypothesis : search.hypotheses()) {
    texts.push_back(hypothesis.tokens);
    scores.push_back(hypothesis.score);
  }
  fact("hypotheses, " + when, texts);
  fact("their scores, " + when, floats(scores));
}

// A search whose candidates are given: what it makes of them does not decide what comes next. The
// text of a candidate is the step, its beam and its token.
class GivenSteps {
 public:
  GivenSteps(const BeamOptions& options, const Tokens& eos_ids, int max_new_tokens)
      : search_(options, eos_ids, max_new_tokens) {}

  void step(const std::vector<Continuation>& candidates, const std::string& when) {
    n_steps_++;
    if (search_.finished()) {
      fact("beams, " + when, "the search is over");
      return;
    }
    const auto text = [&](const Continuation& c) { return Tokens{n_steps_, c.beam, c.token}; };
    Json beams = Json::array();
    for (const auto& [beam, token, score] : search_.step(candidates, text)) {
      beams.push_back(Json::array({beam, token}));
    }
    fact("beams, " + when, beams);
    hypotheses_fact(search_, when);
    fact("the search goes on, " + when, search_.finished() ? "no" : "yes");
  }

 private:
  BeamSearch search_;
  int n_steps_ = 0;
};

// Candidates of a step, the best first: random tokens, of which many are ids below 4.
inline std::vector<Continuation> random_candidates(std::mt19937& random, int count, double best) {
  std::vector<Continuation> candidates;
  for (int i = 0; i < count; i++) {
    candidates.push_back({int(random() % 3), TokenId(random() % 8), best});
    best -= 0.125 * double(1 + random() % 4);
  }
  return candidates;
}

// A target and a draft that know the last two tokens, and a search of the one sped up by the other.
class TableSearch {
 public:
  TableSearch(std::uint64_t seed, const BeamOptions& options, const BeamDrafting& drafting,
              int max_new_tokens)
      : random_(unsigned(seed)),
        target_table_(kVocabulary, [this](int) { return row(0); }),
        draft_table_(kVocabulary, [this](int index) { return draft_row(index); }),
        target_(kVocabulary, target_table_.row_of()),
        draft_(kVocabulary, draft_table_.row_of()),
        drafter_(draft_, kMostRows),
        rounds_(target_, kMostRows),
        run_(target_, drafter_, options, drafting, kPrompt, kEos, max_new_tokens) {
    rounds_.prefill(run_);
  }

  void round_fact(const std::string& when) {
    if (run_.search.finished()) {
      fact("steps, " + when, "the search is over");
      return;
    }
    const BeamRound round = rounds_.round(run_);
    fact("steps, " + when, int_size(round.steps));
    Json beams = Json::array();
    for (const int leaf : run_.leaves) beams.push_back(run_.tree.text_to(leaf));
    if (!run_.search.finished()) {
      fact("beams, " + when, beams);
      fact("their scores, " + when, floats(run_.scores));
    }
    fact("beams of the last step without a row, " + when, round.steps.back().undrafted);
  }

  void found_fact(const std::string& when) {
    while (!run_.search.finished()) rounds_.round(run_);
    hypotheses_fact(run_.search, when);
  }

 private:
  static constexpr int kVocabulary = 6, kMostRows = 256;
  inline static const Tokens kPrompt = {1, 4, 2}, kEos = {0};

  std::vector<double> row(double zeros) { return random_weights(kVocabulary, zeros, random_); }
  // Two rows of three are the target's.
  std::vector<double> draft_row(int index) {
    if (index % 3 == 2) return row(0);
    const int V = kVocabulary;
    const int odd = index / (V * V), before = index / V % V, after = index % V;
    std::vector<double> probs;
    const Tokens last = {before, after};
    for (const float logit : target_table_.row(last, 2 + odd))
      probs.push_back(std::exp(double{logit}));
    return probs;
  }

  std::mt19937 random_;
  ContextTable target_table_, draft_table_;
  TableModel target_, draft_;
  ModelBeamDrafter drafter_;
  BeamRounds rounds_;
  BeamRun run_;
};

// Requests whose beams a draft model continues: from three beams of one request, and two of
// another.
class DraftedLevels {
 public:
  DraftedLevels(std::uint64_t seed, const Tokens& eos_ids)
      : random_(unsigned(seed)),
        table_(kVocabulary, [this](int) { return random_weights(kVocabulary, 0, random_); }),
        model_(kVocabulary, table_.row_of()),
        drafter_(model_, 64),
        search_({3, 1, EarlyStopping::kNever}, eos_ids, 20) {}

  // drafts: of how many requests, and what is asked of each.
  void draft_facts(int n_requests, int width, int steps, const std::string& when) {
    const Tokens prompts[] = {{1, 2}, {3, 0, 4}};
    const std::vector<double> scores[] = {{-1, -1.25, -3}, {-0.5, -0.75}};
    std::vector<TextTree> trees;
    std::vector<Numbers> leaves;
    for (int i = 0; i < n_requests; i++) {
      trees.emplace_back(prompts[i]);
      Numbers beams;
      for (int n = 0; n < int_size(scores[i]); n++) beams.push_back(trees[i].add(0, 5 - n));
      const Numbers became = trees[i].keep(beams);
      for (int& beam : beams) beam = became[beam];
      leaves.push_back(beams);
    }
    std::vector<BeamsToDraft> requests;
    for (int i = 0; i < n_requests; i++) {
      requests.push_back(
          {drafter_.create(), &trees[i], leaves[i], scores[i], &search_, width, steps});
    }
    const std::int64_t before = drafter_.forwards();
    drafter_.draft(requests);
    fact("passes of the draft, " + when, drafter_.forwards() - before);
    for (int i = 0; i < n_requests; i++) {
      Json drafts = Json::array();
      for (int node = int_size(leaves[i]); node < trees[i].size(); node++) {
        drafts.push_back(trees[i].text_to(node));
      }
      fact(fmt::format("texts that request {} drafts, {}", i + 1, when), drafts);
      drafter_.release(requests[i].request);
    }
  }

 private:
  static constexpr int kVocabulary = 6;

  std::mt19937 random_;
  ContextTable table_;
  TableModel model_;
  ModelBeamDrafter drafter_;
  BeamSearch search_;
};

// A tree of texts and a model's cache of it.
class CachedTree {
 public:
  explicit CachedTree(const Tokens& prompt)
      : table_(kVocabulary, [](int row) { return std::vector<double>(kVocabulary, 1 + row); }),
        model_(kVocabulary, table_.row_of()),
        tree_(prompt),
        cache_(model_) {
    cache_.prefill(tree_);
  }

  // Adds nodes after the nodes with these numbers.
  void grow(const Numbers& parents, const Tokens& tokens) {
    for (std::size_t i = 0; i < parents.size(); i++) add(parents[i], tokens[i]);
  }

  // Adds three levels of up to four nodes. Returns the last level.
  Numbers grow_randomly(std::mt19937& random) {
    Numbers level;
    for (int leaf = tree_.first_leaf(); leaf < tree_.size(); leaf++) level.push_back(leaf);
    for (int depth = 0; depth < 3; depth++) {
      Numbers next;
      for (int i = 0; i < 4; i++) {
        const int node = add(level[random() % level.size()], TokenId(random() % 9));
        if (std::ranges::find(next, node) == next.end()) next.push_back(node);
      }
      level = next;
    }
    return level;
  }

  int add(int parent, TokenId token) { return tree_.add(parent, token); }

  void keep_fact(const Numbers& leaves, const std::string& when) {
    const Numbers became = tree_.keep(leaves);
    cache_.keep(tree_, became);
    fact("tokens in the cache, " + when, model_.text(0));
    fact("inner nodes that it lacks, " + when, cache_.missing(tree_));
  }

  // Feeds the leaves and all drafts; the cache must find each node's parent.
  void feed_fact(const std::string& when) {
    Numbers nodes;
    for (int node = tree_.first_leaf(); node < tree_.size(); node++) nodes.push_back(node);
    const Segment segment = cache_.feed(tree_, nodes, 0);
    fact("parents of the next pass, " + when,
         Numbers(segment.parents.begin(), segment.parents.end()));
    model_.forward(std::span(&segment, 1), {});
  }

 private:
  static constexpr int kVocabulary = 30;

  ContextTable table_;
  TableModel model_;
  TextTree tree_;
  TreeCache cache_;
};

}  // namespace specdec::course
