// The first round of a text as far as stage 4's code goes: a line for each part that is written,
// and for the next one that it is yet to be done. Models and drafter are given. Nothing is judged
// here.
#include <exception>
#include <functional>

#include "common/embedded_models.h"
#include "common/llama.h"
#include "common/speculation/model_drafter.h"
#include "kernels/cpu/cpu_backend.h"
#include "stages/02_contiguous_kv_cache/contiguous_kv_cache.h"
#include "stages/04_greedy_speculation/greedy_speculation.h"
#include "stages/programs/run/request.h"

namespace specdec::course {
namespace {

constexpr int kSpecLength = 5;
constexpr int kNewTokens = 16;
constexpr std::string_view kPrompt =
    "Once, in the winter, Sunita came to York. Sunita was looking for a crimson coat.";

// Drafts the likeliest token, one pass for each.
class Likeliest final : public DraftChooser {
 public:
  explicit Likeliest(Backend& backend) : backend_(backend) {}

  void choose(std::span<const NextDraft> next, ConstDeviceRows logits) override {
    for (int i = 0; i < static_cast<int>(next.size()); i++) {
      next[static_cast<std::size_t>(i)].request->drafts->add_certain(
          argmax(backend_, logits.slice(i, 1)));
    }
  }

 private:
  Backend& backend_;
};

// The embedded pair at the beginning of a text.
struct Start {
  explicit Start(const ModelFiles& files)
      : tokenizer(*files.tokenizer),
        request{.prompt = tokenizer.encode(kPrompt), .max_new_tokens = kNewTokens},
        backend(make_cpu_backend(1)),
        target_model(files.checkpoint, *backend),
        draft_model(Checkpoint(embedded_draft()), *backend),
        target_cache(*backend, target_model.kv_shape(), 1, positions()),
        draft_cache(*backend, draft_model.kv_shape(), 1, positions()),
        target(target_model, target_cache, {.token_limit = files.token_limit}),
        draft(draft_model, draft_cache, {.token_limit = files.token_limit}),
        drafter(draft, std::make_unique<Likeliest>(*backend), positions()),
        steps(target, drafter, kSpecLength, positions()),
        context(request.prompt) {
    steps.prefill(context);
  }

  int positions() const {
    return static_cast<int>(request.prompt.size()) + kNewTokens + kSpecLength;
  }

  std::string quoted(std::span<const TokenId> tokens) const {
    std::string text;
    for (const TokenId token : tokens) {
      text +=
          fmt::format("{}\"{}\"", text.empty() ? "" : " ", tokenizer.decode(std::span(&token, 1)));
    }
    return text;
  }

  const Tokenizer& tokenizer;
  const GenerationRequest request;
  const std::unique_ptr<Backend> backend;
  const LlamaModel target_model, draft_model;
  ContiguousKvCache target_cache, draft_cache;
  Llama target, draft;
  ModelDrafter drafter;
  DraftAndVerify steps;
  std::vector<TokenId> context;
};

// Prints a line of the round, or that its task is to be done.
bool show(std::string_view task, std::string_view name, const std::function<std::string()>& part) {
  std::string line;
  bool done = true;
  try {
    line = part();
  } catch (const std::exception& error) {
    done = std::string_view(error.what()).find("not done yet") == std::string_view::npos;
    line = done ? error.what() : "to do";
  }
  fmt::print("  {}  {:10}{}\n", task, name, line);
  return done;
}

std::string choices(Start& start) {
  start.steps.verify(start.context);
  std::vector<TokenId> tokens;
  for (int i = 0; i <= start.steps.drafts().size(); i++) {
    tokens.push_back(argmax(*start.backend, start.steps.logits(i)));
  }
  return "the target's choices " + start.quoted(tokens);
}

// A round of its own, as a part that is missing ends it. rolled_back: whether it came to its end.
std::string accepted(Start& start, bool& rolled_back) {
  Generation generation(start.request, nullptr);
  std::string missing;
  try {
    greedy_round(start.steps, start.context, generation);
    rolled_back = true;
  } catch (const std::exception& error) {
    missing = error.what();
  }
  const auto emitted = std::span(start.context).subspan(start.request.prompt.size());
  if (emitted.empty() && !rolled_back) throw std::runtime_error(missing);
  return "emitted " + start.quoted(emitted);
}

void show_round() {
  const ModelFiles files = open_model(embedded_target().string());
  Start first(files), second(files);
  fmt::print("After \"{}\"\n", kPrompt);
  bool rolled_back = false;
  const bool drafts = show("4.1", "draft", [&] {
    first.steps.draft(first.context, {});
    return "K = 5 " + first.quoted(first.steps.drafts().tokens());
  });
  if (!drafts || !show("4.2", "verify", [&] { return choices(first); })) return;
  if (!show("4.3", "accept", [&] { return accepted(second, rolled_back); })) return;
  show("4.4", "roll back", [&]() -> std::string {
    if (!rolled_back) return "to do";
    return fmt::format("{} tokens cached by the target, {} by the draft, {} in the text",
                       second.target.length(second.steps.sequence()),
                       second.drafter.length(second.steps.draft_sequence()), second.context.size());
  });
}

}  // namespace
}  // namespace specdec::course

int main() {
  try {
    specdec::course::show_round();
  } catch (const std::exception& error) {
    fmt::print("the round ended with an error: {}\n", error.what());
    return 1;
  }
}
