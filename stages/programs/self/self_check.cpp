#include "stages/programs/self/self_check.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/embedded_models.h"
#include "stages/08_token_trees/tree_round.h"
#include "stages/programs/cache/make_cache.h"
#include "stages/programs/self/heads_folder.h"
#include "stages/programs/self/round_check.h"
#include "stages/programs/self/self_draft.h"
#include "stages/programs/speculation/checked_run.h"
#include "stages/programs/trees/tree_check.h"
#include "stages/programs/trees/tree_run.h"

namespace specdec {
namespace {

constexpr const char* kTree = "top:3x2x1";
constexpr int kSpecLength = 5;  // of chains without goldens
constexpr const char* kAcceptance = "acceptance.jsonl";
constexpr const char* kAcceptanceMarkov = "acceptance_markov.jsonl";
constexpr const char* kMarkov = "markov";  // the head that corrects the parallel draft

// In a chain of K tokens, how many drafts at each position were tested and accepted.
struct Acceptance {
  int spec_length = 0;
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
        line.required_integer("spec_length"), counts_of(line, "tested"),
        counts_of(line, "accepted")};
  });
}

// Returns what is wrong, or an empty text. want: what is accepted at each position; null: unknown.
std::string check_text(const CheckedTarget& target, const GoldenText& text,
                       const RunOptions& options, const Acceptance* want) {
  TreeRun trees(options);
  SelfDraft self(trees.options(), trees.options().spec_length);
  SessionParts parts = self.parts(trees.parts());
  CheckedRun run(target, trees.options(), target.request(text),
                 {.drafting = std::move(parts.drafting), .capacity = parts.capacity});
  GreedyTreeJudge judge(run.target.backend());
  Acceptance got;
  if (want != nullptr) got.spec_length = want->spec_length;
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

// A chain of the likeliest tokens.
std::string chain_of(int length) {
  std::string shape = "top:1";
  for (int i = 1; i < length; ++i) shape += "x1";
  return shape;
}

// The length of these heads' chains.
int chain_length(const GoldenAcceptance& acceptance, const std::string& heads) {
  const auto line = acceptance.lower_bound({heads, ""});
  const bool known = line != acceptance.end() && line->first.first == heads;
  return known ? line->second.spec_length : kSpecLength;
}

// The texts with one folder of heads. name: of their goldens.
void check_texts(const CheckedTarget& target, const GoldenAcceptance& acceptance,
                 const RunOptions& with, const std::string& name, CheckList& list) {
  const std::string chain = chain_of(chain_length(acceptance, name));
  for (const GoldenText& text : few_of_each_kind(target.texts)) {
    for (const std::string& shape : {chain, std::string(kTree)}) {
      for (const CacheKind cache : {CacheKind::kPaged, CacheKind::kContiguous}) {
        const bool in_every_way = text.id.ends_with("-0");
        if ((cache == CacheKind::kContiguous || shape == kTree) && !in_every_way) continue;
        RunOptions options = with;
        options.tree = shape;
        options.cache = cache;
        const auto want = acceptance.find({name, text.id});
        const bool counts = shape == chain && want != acceptance.end();
        list.check(fmt::format("{}, greedy text {}, {}, {} cache{}", name, text.id, shape,
                               name_of(cache), counts ? ", accepted by position" : ""),
                   check_text(target, text, options, counts ? &want->second : nullptr));
      }
    }
  }
}

// The golden rounds of heads that read the target's rows.
void check_rounds(const CheckedTarget& target, const RunOptions& options, const std::string& name,
                  CheckList& list) {
  const std::filesystem::path file = target.goldens / "heads" / (name + ".safetensors");
  if (options.draft_kind != DraftKind::kHeads || !std::filesystem::exists(file)) return;
  const LlamaConfig& config = target.model.config();
  const int V = config.vocab_size;
  const std::vector<GoldenRound> rounds = read_rounds(file, heads_folder(options), V);
  const int most = std::min(golden_share(options, config).prompts, int_size(rounds));
  for (const GoldenRound& golden : std::span(rounds).first(most)) {
    const int K = int_size(golden.drafts);
    SelfDraft self(options, K);
    const SessionParts parts = self.parts(SessionParts{});
    Capacity capacity = Capacity::of_chain(K);
    capacity.context = int_size(golden.context) + K;
    const HeadsOfTarget heads = parts.drafting.make_heads(target.files, target.model, capacity);
    const auto cache = make_cache(target.model, cache_layout(options, capacity.context + K));
    Llama llama(target.model, *cache, {.token_limit = V});
    const auto watched = heads.watch(llama, capacity);
    list.check(fmt::format("{}, a round after {}", name, golden.name),
               check_round(golden, watched_target(llama, watched.get()), *heads.model,
                           dynamic_cast<RoundModel&>(*heads.model)));
  }
}

// The name that goldens have for heads: their folder's, if they are included ones.
std::string name_in_goldens(const RunOptions& options) {
  if (!options.markov.empty()) return kMarkov;
  const std::filesystem::path folder = named_folder(options.heads);
  const bool included = std::ranges::any_of(kIncludedHeads, [&](const IncludedHeads& heads) {
    std::error_code missing;
    return std::filesystem::equivalent(folder, embedded_heads() / heads.name, missing);
  });
  return included ? std::filesystem::path(folder / "").parent_path().filename().string()
                  : "given heads";
}

// One folder of heads. heads: for --heads.
void check_heads(const CheckedTarget& target, const GoldenAcceptance& acceptance,
                 SelfDraftKind kind, const std::string& heads, CheckList& list) {
  RunOptions options = target.options;
  options.draft_kind = DraftKind::kHeads;
  options.self_draft = kind;
  if (heads == kMarkov) options.markov = heads;
  if (options.heads.empty() && heads != kMarkov) options.heads = heads;
  options = with_heads(options);
  const std::string name = name_in_goldens(options);
  check_rounds(target, options, name, list);
  check_texts(target, acceptance, options, name, list);
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
    check_heads(target, acceptance, options.self_draft, options.heads, list);
    return list.finish();
  }
  for (const IncludedHeads& heads : kIncludedHeads) {
    if (!are_for(heads, options.target)) continue;
    list.note_missing(embedded_heads(), {heads.name});
    if (!std::filesystem::exists(embedded_heads() / heads.name)) continue;
    check_heads(target, acceptance, heads.kind, std::string(heads.name), list);
  }
  if (is_embedded_target(options.target)) {
    list.note_missing(target.goldens, {kAcceptanceMarkov});
    check_heads(target, acceptance, SelfDraftKind::kParallel, kMarkov, list);
  }
  return list.finish();
}

}  // namespace specdec
