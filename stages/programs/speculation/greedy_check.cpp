#include "stages/programs/speculation/greedy_check.h"

#include <optional>

#include "common/base/json_value.h"
#include "stages/04_greedy_speculation/greedy_speculation.h"
#include "stages/programs/cache/make_cache.h"
#include "stages/programs/speculation/draft_setup.h"

namespace specdec {
namespace {

// How many drafts a round that starts before token `at` accepts: those that both models choose.
int accepted_from(const GoldenText& text, std::size_t at, int K) {
  int accepted = 0;
  for (std::size_t i = at; i < text.steps.size() && accepted < K; i++, accepted++) {
    if (text.steps[i].token != text.draft_tokens[i]) break;
  }
  return accepted;
}

// The target and a drafter, ready for one text after the other.
class Check {
 public:
  Check(RunOptions options, const LlamaModel& model, const std::filesystem::path& goldens)
      : options_(std::move(options)), model_(model), files_(open_model(options_.target)) {
    check_belongs(goldens, files_.checkpoint);
    const LlamaConfig& config = files_.checkpoint.config();
    texts_ = golden_texts(goldens, config, golden_share(options_, config).texts);
    options_.pages = 0;
    files_.token_limit = model.config().vocab_size;
    for (const GoldenText& text : texts_) {
      positions_ = std::max(positions_, static_cast<int>(text.prompt.size() + text.steps.size()));
    }
    positions_ = std::min(positions_ + kLongest, model.config().max_seq_len);
    request_.eos_ids = files_.checkpoint.config().eos_ids;
  }

  std::span<const GoldenText> texts() const { return texts_; }

  // Empty, or what is wrong.
  std::string text(const GoldenText& text, DraftKind draft_kind, int K) {
    options_.draft_kind = draft_kind;
    options_.spec_length = K;
    request_.prompt = text.prompt;
    request_.max_new_tokens = static_cast<int>(text.steps.size());
    DraftSetup draft(options_, files_, model_, {.context = positions_});
    const auto cache = make_cache(model_, cache_layout(options_, positions_));
    Llama target(model_, *cache, {.token_limit = files_.token_limit});
    DraftAndVerify steps(target, draft.drafter(), K, positions_);
    return rounds(steps, text);
  }

 private:
  static constexpr int kLongest = 32;  // of K

  // How many drafts the round after `at` tokens accepts; none: the golden text does not tell.
  std::optional<int> accepted(const GoldenText& text, std::size_t at, int drafted) const {
    if (options_.draft_kind == DraftKind::kLlama) return accepted_from(text, at, drafted);
    if (options_.draft_kind != DraftKind::kSelf) return std::nullopt;
    return std::min<int>(drafted, static_cast<int>(text.steps.size() - at));
  }

  std::string rounds(DraftAndVerify& steps, const GoldenText& text) {
    Generation generation(request_, files_.tokenizer_or_null());
    std::vector<TokenId> context = text.prompt;
    steps.prefill(text.prompt);
    while (!generation.finished()) {
      const std::size_t at = generation.tokens().size();
      const Round round = greedy_round(steps, context, generation);
      const std::optional<int> want = accepted(text, at, round.drafted);
      if (want && round.accepted != *want) {
        return fmt::format("the round after {} tokens accepted {} drafted tokens, not {}", at,
                           round.accepted, *want);
      }
    }
    const auto tokens = generation.tokens();
    const std::vector<TokenId> want = text.tokens();
    if (std::ranges::equal(tokens, want)) return "";
    const auto differ = std::ranges::mismatch(tokens, want);
    return fmt::format("token {} differs from the golden one", differ.in1 - tokens.begin());
  }

  RunOptions options_;
  const LlamaModel& model_;
  std::vector<GoldenText> texts_;
  ModelFiles files_;
  GenerationRequest request_;
  int positions_ = 0;
};

}  // namespace

void check_greedy_speculation(const RunOptions& options, const LlamaModel& target,
                              const std::filesystem::path& goldens, CheckList& list) {
  Check check(options, target, goldens);
  list.note_missing(goldens, {"greedy.jsonl"});
  const auto add = [&](const GoldenText& text, DraftKind kind, int K) {
    const std::string problem = check.text(text, kind, K);
    const std::string_view by = kind == DraftKind::kSelf    ? "the target"
                                : kind == DraftKind::kLlama ? "the draft"
                                                            : name_of(kind);
    list.add(problem.empty(),
             fmt::format("greedy text {}: {} tokens, drafts by {}, K = {}", text.id,
                         text.steps.size(), by, K),
             problem);
  };
  const bool by_model =
      options.draft_kind == DraftKind::kLlama || options.draft_kind == DraftKind::kSelf;
  for (const GoldenText& text : check.texts()) {
    if (!by_model) add(text, options.draft_kind, 5);
    if (!text.draft_tokens.empty()) add(text, DraftKind::kLlama, 5);
    if (!text.id.ends_with("-0")) continue;
    if (!text.draft_tokens.empty()) {
      for (const int K : {1, 2, 8, 16}) add(text, DraftKind::kLlama, K);
    }
    add(text, DraftKind::kSelf, 5);
  }
}

}  // namespace specdec
