#include "stages/programs/self/self_check.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/embedded_models.h"
#include "stages/08_token_trees/tree_round.h"
#include "stages/programs/self/heads_folder.h"
#include "stages/programs/self/self_draft.h"
#include "stages/programs/speculation/checked_run.h"
#include "stages/programs/trees/tree_check.h"
#include "stages/programs/trees/tree_run.h"

namespace specdec {
namespace {

constexpr const char* kChain = "top:1x1x1x1x1";  // a chain of the likeliest tokens
constexpr const char* kTree = "top:3x2x1";
constexpr const char* kAcceptance = "acceptance.jsonl";
constexpr const char* kAcceptanceMarkov = "acceptance_markov.jsonl";
constexpr const char* kMarkov = "markov";  // the head that corrects the parallel draft

// How many drafts at each position were tested and accepted.
struct Acceptance {
  std::vector<int> tested, accepted;

  void add(const Round& round) {
    count(tested, round.tested());
    count(accepted, round.accepted);
  }
  bool operator==(const Acceptance&) const = default;

 private:
  static void count(std::vector<int>& at, int positions) {
    at.resize(std::max(int_size(at), positions));
    for (int i = 0; i < positions; ++i) ++at[i];
  }
};

// By heads and text.
using GoldenAcceptance = std::map<std::pair<std::string, std::string>, Acceptance>;

std::vector<int> counts_of(const JsonObject& line, const char* key) {
  std::vector<int> counts;
  for (const Json& value : line.required_list(key)) {
    counts.push_back(as_int(value).value_or(-1));
    if (counts.back() < 0) line.fail_type(key, "list of counts");
  }
  while (!counts.empty() && counts.back() == 0) counts.pop_back();
  return counts;
}

void add_acceptance(const std::filesystem::path& path, GoldenAcceptance& result) {
  if (!std::filesystem::exists(path)) return;
  for_golden_lines(read_text_file(path), path.string(), kAllGoldens, [&](const JsonObject& line) {
    result[{line.required_string("heads"), line.required_string("id")}] = {
        counts_of(line, "tested"), counts_of(line, "accepted")};
  });
}

// Returns what is wrong, or an empty text. want: what is accepted at each position; null: unknown.
std::string check_text(const CheckedTarget& target, const GoldenText& text,
                       const RunOptions& options, const Acceptance* want) {
  TreeRun trees(options);
  SelfDraft self(trees.options(), trees.options().spec_length);
  SessionParts parts = self.parts(trees.parts());
  CheckedRun run(target, trees.options(), target.request(text),
                 {.drafting = std::move(parts.drafting),
                  .capacity = parts.capacity,
                  .watch = std::move(parts.watch)});
  GreedyTreeJudge judge(run.target.backend());
  Acceptance got;
  while (!run.generation.finished()) {
    got.add(tree_round(run.steps, judge, run.context, run.generation));
  }
  const std::string difference = run.difference(text.tokens());
  if (!difference.empty() || want == nullptr || got == *want) return difference;
  return fmt::format(
      "the text is right, but these drafts are not those of the golden heads: by position, [{}] of "
      "[{}] are accepted, and should be [{}] of [{}]",
      fmt::join(got.accepted, " "), fmt::join(got.tested, " "), fmt::join(want->accepted, " "),
      fmt::join(want->tested, " "));
}

// The first texts of each kind ("code-0"), because many drafters read them.
std::vector<GoldenText> few_of_each_kind(const std::vector<GoldenText>& texts) {
  constexpr int kFew = 2;
  std::map<std::string, int> seen;
  std::vector<GoldenText> few;
  std::ranges::copy_if(texts, std::back_inserter(few), [&](const GoldenText& text) {
    return seen[text.id.substr(0, text.id.rfind('-'))]++ < kFew;
  });
  return few;
}

// The texts with one folder of heads. name: the folder's among the embedded ones.
void check_heads(const CheckedTarget& target, const GoldenAcceptance& acceptance,
                 SelfDraftKind kind, const std::string& name, CheckList& list) {
  for (const GoldenText& text : few_of_each_kind(target.texts)) {
    for (const char* shape : {kChain, kTree}) {
      for (const CacheKind cache : {CacheKind::kPaged, CacheKind::kContiguous}) {
        const bool in_every_way = text.id.ends_with("-0");
        if ((cache == CacheKind::kContiguous || shape == kTree) && !in_every_way) continue;
        RunOptions options = target.options;
        options.draft_kind = DraftKind::kHeads;
        options.self_draft = kind;
        if (name == kMarkov) options.markov = name;
        if (options.heads.empty() && name != kMarkov) options.heads = name;
        options = with_heads(options);
        options.tree = shape;
        options.cache = cache;
        const auto want = acceptance.find({name, text.id});
        const bool counts = shape == kChain && want != acceptance.end();
        list.check(fmt::format("{}, greedy text {}, {}, {} cache{}", name, text.id, shape,
                               name_of(cache), counts ? ", accepted by position" : ""),
                   check_text(target, text, options, counts ? &want->second : nullptr));
      }
    }
  }
}

}  // namespace

int check_self_drafting(const RunOptions& options) {
  if (options.draft_kind != DraftKind::kHeads && !options.drafts_in_parallel()) {
    return check_token_trees(options);  // without heads, this is stage 8
  }
  const CheckedTarget target(options);
  GoldenAcceptance acceptance;
  for (const char* file : {kAcceptance, kAcceptanceMarkov}) {
    add_acceptance(target.goldens / file, acceptance);
  }
  CheckList list;
  list.note_missing(target.goldens, {"greedy.jsonl", kAcceptance});
  if (!options.heads.empty()) {
    check_heads(target, acceptance, options.self_draft, std::string(name_of(options.self_draft)),
                list);
    return list.finish();
  }
  for (const IncludedHeads& heads : kIncludedHeads) {
    if (!heads.model.empty()) continue;
    list.note_missing(embedded_heads(), {heads.name});
    if (!std::filesystem::exists(embedded_heads() / heads.name)) continue;
    check_heads(target, acceptance, heads.kind, std::string(heads.name), list);
  }
  list.note_missing(target.goldens, {kAcceptanceMarkov});
  check_heads(target, acceptance, SelfDraftKind::kParallel, kMarkov, list);
  return list.finish();
}

}  // namespace specdec
