// Beam search on random tables, against loops that share nothing with the product: plain search by
// its definition, and how many steps each round of drafts is worth.
#include <cmath>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "common/base/check.h"
#include "stages/03_paged_kv_cache/paged_kv_cache.h"
#include "tests/paged_table_model.h"
#include "tests/table_model.h"
#include "tests/unit/stages/10_beam_search/beam_fixture.h"

namespace specdec {
namespace {

using Text = std::vector<TokenId>;

// ---- the oracle: texts with their scores, sorted whole

struct Scored {
  Text text;  // with the prompt
  double score = 0;
  bool in_draft = true;
};

std::vector<double> log_probs(const ContextTable& table, const Text& text) {
  double total = 0;
  for (const float logit : table.row(text)) total += std::exp(double{logit});
  std::vector<double> result;
  for (const float logit : table.row(text)) result.push_back(double{logit} - std::log(total));
  return result;
}

// All texts with one more token, sorted: larger scores first, then the order of beams and ids.
std::vector<Scored> extended(const ContextTable& table, const std::vector<Scored>& beams) {
  std::vector<Scored> all;
  for (const Scored& beam : beams) {
    const std::vector<double> log_prob = log_probs(table, beam.text);
    for (TokenId token = 0; token < table.vocab_size(); token++) {
      if (std::isinf(log_prob[std::size_t(token)])) continue;
      all.push_back(beam);
      all.back().text.push_back(token);
      all.back().score += log_prob[std::size_t(token)];
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Scored& a, const Scored& b) { return a.score > b.score; });
  return all;
}

bool ends(const Text& text, const AskedBeams& asked) {
  return std::find(asked.eos_ids.begin(), asked.eos_ids.end(), text.back()) != asked.eos_ids.end();
}

struct OracleRun {
  std::vector<Scored> hypotheses;          // with their penalised scores
  std::vector<std::vector<Scored>> beams;  // that run after each step
};

OracleRun search_by_definition(const ContextTable& table, const AskedBeams& asked) {
  OracleRun run;
  const std::size_t w = std::size_t(asked.beams.width);
  const std::size_t looked_at = std::max<std::size_t>(2, 1 + asked.eos_ids.size()) * w;
  std::vector<Scored> beams = {{asked.prompt, 0, true}};
  for (int length = 1; length <= asked.max_new_tokens; length++) {
    std::vector<Scored> candidates = extended(table, beams);
    if (candidates.size() > looked_at) candidates.resize(looked_at);
    beams.clear();
    const auto worth = [&](double score, int tokens) {
      return score / std::pow(double(tokens), asked.beams.length_penalty);
    };
    for (std::size_t rank = 0; rank < candidates.size(); rank++) {
      const bool at_end = length == asked.max_new_tokens || ends(candidates[rank].text, asked);
      if (!at_end && beams.size() < w) beams.push_back(candidates[rank]);
      if (at_end && rank < w) {
        Scored hypothesis = candidates[rank];
        hypothesis.score = worth(hypothesis.score, length);
        run.hypotheses.push_back(hypothesis);
      }
    }
    std::stable_sort(run.hypotheses.begin(), run.hypotheses.end(),
                     [](const Scored& a, const Scored& b) { return a.score > b.score; });
    if (run.hypotheses.size() > w) run.hypotheses.resize(w);
    run.beams.push_back(beams);
    if (beams.empty()) break;
    if (run.hypotheses.size() < w) continue;
    if (asked.beams.early_stopping == EarlyStopping::kTrue) break;
    const bool longest =
        asked.beams.early_stopping == EarlyStopping::kNever && asked.beams.length_penalty > 0;
    const double best = worth(beams[0].score, longest ? asked.max_new_tokens : length);
    if (!(best > run.hypotheses.back().score)) break;
  }
  return run;
}

// How many steps each round takes: by the draft's beams from those that the target has after
// `done` steps, level by level.
std::vector<int> steps_by_definition(const ContextTable& draft, const OracleRun& plain,
                                     const AskedBeams& asked, int width, int spec_length) {
  std::vector<int> rounds;
  const std::size_t u = std::size_t(width);
  const std::size_t looked_at = std::max<std::size_t>(2, 1 + asked.eos_ids.size()) * u;
  std::size_t done = 0;
  while (done < plain.beams.size()) {
    std::vector<Scored> level =
        done == 0 ? std::vector<Scored>{{asked.prompt, 0, true}} : plain.beams[done - 1];
    int steps = 1;
    for (int k = 0; k < spec_length; k++) {
      if (done + std::size_t(steps) >= plain.beams.size()) break;  // the search has ended
      std::vector<Scored> candidates = extended(draft, level);
      if (candidates.size() > looked_at) candidates.resize(looked_at);
      level.clear();
      for (const Scored& candidate : candidates) {
        if (!ends(candidate.text, asked) && level.size() < u) level.push_back(candidate);
      }
      bool all = true;
      for (const Scored& beam : plain.beams[done + std::size_t(steps) - 1]) {
        all &= std::any_of(level.begin(), level.end(),
                           [&](const Scored& drafted) { return drafted.text == beam.text; });
      }
      if (!all) break;
      steps++;
    }
    rounds.push_back(steps);
    done += std::size_t(steps);
  }
  return rounds;
}

// ---- random cases

struct Case {
  ContextTable target, draft;
  AskedBeams asked;
  BeamDrafting drafting;
};

Case random_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto from = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  const int V = from(3, 5);
  AskedBeams asked;
  asked.prompt.resize(std::size_t(from(1, 3)));
  for (TokenId& token : asked.prompt) token = from(0, V - 1);
  asked.max_new_tokens = from(1, 14);
  for (int i = from(0, 2); i > 0; i--) asked.eos_ids.push_back(i);
  asked.beams.width = from(1, 3);
  asked.beams.length_penalty = std::vector{0.0, 0.5, 1.0, 2.0, -1.0}[std::size_t(from(0, 4))];
  asked.beams.early_stopping = static_cast<EarlyStopping>(from(0, 2));
  const auto row = [&](int) { return random_weights(V, 0.1, random); };
  ContextTable target(V, row), own(V, row);
  const bool alike = from(0, 2) == 0;  // a draft that is always right
  return {target,
          alike ? target : own,
          asked,
          {.width = asked.beams.width + from(0, 4), .spec_length = from(1, 4)}};
}

void expect_oracle(const FoundBeams& found, const OracleRun& want) {
  ASSERT_EQ(found.hypotheses.size(), want.hypotheses.size());
  for (std::size_t i = 0; i < want.hypotheses.size(); i++) {
    const Text& text = want.hypotheses[i].text;
    const Text& got = found.hypotheses[i].tokens;
    EXPECT_EQ(got, Text(text.end() - std::ptrdiff_t(got.size()), text.end()));
    EXPECT_NEAR(found.hypotheses[i].score, want.hypotheses[i].score, 1e-12);
  }
}

TEST(BeamTablesTest, ThousandRandomTablesGiveTheHypothesesOfTheDefinition) {
  long steps = 0, passes = 0, full = 0;
  for (unsigned seed = 0; seed < 1000; seed++) {
    SCOPED_TRACE(seed);
    const Case c = random_case(seed);
    const OracleRun want = search_by_definition(c.target, c.asked);
    TableModel target(c.target.vocab_size(), c.target.row_of());
    TableModel draft(c.draft.vocab_size(), c.draft.row_of());
    ModelBeamDrafter drafter(draft, 64);
    const FoundBeams plain = search_plainly(target, c.asked);
    const FoundBeams fast = search_beams(target, drafter, c.asked, c.drafting);
    expect_oracle(plain, want);
    EXPECT_EQ(fast.hypotheses, plain.hypotheses);  // bit for bit
    EXPECT_EQ(plain.rounds.size(), want.beams.size());

    std::vector<int> got;
    for (const BeamRound& round : fast.rounds) got.push_back(int(round.steps.size()));
    EXPECT_EQ(
        got, steps_by_definition(c.draft, want, c.asked, c.drafting.width, c.drafting.spec_length));
    for (const int n : got) full += n == c.drafting.spec_length + 1;
    steps += long(plain.rounds.size());
    passes += long(fast.rounds.size());
  }
  RecordProperty("steps_per_pass", std::to_string(double(steps) / double(passes)));
  EXPECT_GT(steps, 4000);
  EXPECT_LT(passes, steps * 3 / 4) << "drafts save passes";
  EXPECT_GT(full, 100) << "all levels of a round are accepted";
}

// Cases without zeros, where every token is a continuation that a draft can list.
Case full_case(unsigned seed) {
  Case c = random_case(seed);
  std::mt19937 random(seed);
  const int V = c.target.vocab_size();
  const auto row = [&](int) { return random_weights(V, 0, random); };
  c.target = ContextTable(V, row);
  c.draft = ContextTable(V, row);
  return c;
}

struct Passes {
  int full = 0, cut = 0;  // that took K + 1 steps, and others, but for the last of each search
  bool fewest = true;     // each search of L steps took ceil(L / (K + 1))
};

Passes passes_of(const std::function<void(Case&)>& change) {
  Passes passes;
  for (unsigned seed = 0; seed < 300; seed++) {
    Case c = full_case(seed);
    change(c);
    TableModel target(c.target.vocab_size(), c.target.row_of());
    TableModel draft(c.draft.vocab_size(), c.draft.row_of());
    ModelBeamDrafter drafter(draft, 4096);
    const FoundBeams plain = search_plainly(target, c.asked);
    const FoundBeams fast = search_beams(target, drafter, c.asked, c.drafting, 8192);
    EXPECT_EQ(fast.hypotheses, plain.hypotheses);
    const std::size_t most = std::size_t(c.drafting.spec_length) + 1;
    for (std::size_t i = 0; i + 1 < fast.rounds.size(); i++) {
      (fast.rounds[i].steps.size() == most ? passes.full : passes.cut)++;
    }
    passes.fewest &= fast.rounds.size() == (plain.rounds.size() + most - 1) / most;
  }
  return passes;
}

// A draft that lists all continuations of a level contains those of the target.
TEST(BeamTablesTest, ADraftOfAllContinuationsIsNeverCut) {
  const Passes all = passes_of([](Case& c) {
    c.drafting.width = c.asked.beams.width;
    for (int k = 0; k < c.drafting.spec_length; k++) c.drafting.width *= c.target.vocab_size();
  });
  EXPECT_EQ(all.cut, 0);
  EXPECT_TRUE(all.fewest);
  EXPECT_GT(all.full, 100);
}

// V w continuations are all those of one step. Of a second one they are not.
TEST(BeamTablesTest, AWidthOfVTimesWIsEnoughForOneLevel) {
  const auto widen = [](Case& c) {
    c.drafting.width = c.asked.beams.width * c.target.vocab_size();
  };
  const Passes one = passes_of([&](Case& c) {
    widen(c);
    c.drafting.spec_length = 1;
  });
  EXPECT_EQ(one.cut, 0);
  EXPECT_TRUE(one.fewest);
  const Passes three = passes_of([&](Case& c) {
    widen(c);
    c.drafting.spec_length = 3;
  });
  EXPECT_GT(three.cut, 0);
}

// The target as its own draft is always right if it is as wide. A wider search may lose beams of
// the narrow one, because others, which the narrow one never had, are better after two steps.
TEST(BeamTablesTest, TheTargetAsItsDraftIsRightAtTheSameWidth) {
  const auto widen = [](int more) {
    return [more](Case& c) {
      c.draft = c.target;
      c.drafting.width = c.asked.beams.width + more;
    };
  };
  const Passes same = passes_of(widen(0));
  EXPECT_EQ(same.cut, 0);
  EXPECT_TRUE(same.fewest);
  EXPECT_GT(passes_of(widen(2)).cut, 0);
}

// What the caches hold is read back through page tables: a node that was lost or moved wrongly, or
// one that should be gone, changes the logits, or aborts.
TEST(BeamTablesTest, PagesHoldWhatTheTreeSays) {
  for (unsigned seed = 0; seed < 200; seed++) {
    SCOPED_TRACE(seed);
    const Case c = random_case(seed);
    TableModel plain_target(c.target.vocab_size(), c.target.row_of());
    const FoundBeams plain = search_plainly(plain_target, c.asked);
    const auto backend = make_plain_backend();
    const KvShape shape{.n_layers = 1, .n_kv_heads = 1, .head_dim = 1};
    const int page_size = std::vector{1, 3, 16}[seed % 3];
    PagedKvCache target_cache(*backend, shape, 400 / page_size, page_size);
    PagedKvCache draft_cache(*backend, shape, 400 / page_size, page_size);
    PagedTableModel target(target_cache, c.target), draft(draft_cache, c.draft);
    {
      ModelBeamDrafter drafter(draft, 64);
      EXPECT_EQ(search_beams(target, drafter, c.asked, c.drafting).hypotheses, plain.hypotheses);
    }
    for (const PagedKvCache* cache : {&target_cache, &draft_cache}) {
      EXPECT_EQ(cache->allocator().n_used(), 0);
    }
  }
}

}  // namespace
}  // namespace specdec
