#include "stages/programs/batch/workload.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "common/base/error.h"
#include "common/base/mapped_file.h"
#include "common/base/utf8.h"
#include "common/embedded_models.h"
#include "common/sampling/uniform.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

constexpr IntegerRange kPromptLengths{1, 1 << 20};
constexpr IntegerRange kRequestCounts{1, 100'000};
constexpr auto kMostSeed = std::numeric_limits<std::uint64_t>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Lengths {  // 0: not given
  int lowest = 0, highest = 0;
};

struct Spec {
  double rate = 0;
  int n = 0;
  std::uint64_t seed = 1;
  Lengths new_tokens, prompt;
  double sampled = 0;
  std::vector<std::string_view> kinds;  // none: all
};

// Splits "a,b,c" into its items; "" has one empty item.
std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> items;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(separator, start), text.size());
    items.push_back(text.substr(start, end - start));
    start = end + separator.size();
  }
  return items;
}

// One "name=value" of a spec.
struct Item {
  std::string_view name, value;

  template <typename Number>
  Number number(Number lowest, Number highest) const {
    Number number = 0;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
    if (parsed.ec != std::errc() || parsed.ptr != value.data() + value.size() ||
        !(number >= lowest && number <= highest)) {
      fail("--workload: {} is {}; it takes a number from {} to {}", name, in_quotes(value), lowest,
           highest);
    }
    return number;
  }
  int integer(IntegerRange range) const { return number(range.lowest, range.highest); }
};

template <typename Table>
std::string names_in(const Table& table) {
  std::string names;
  for (const auto& entry : table)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", entry.name);
  return names;
}

// A kind of document in the embedded text.
struct Kind {
  std::string_view name;
  bool (*is)(std::string_view document);
};

bool is_chat(std::string_view document) { return document.starts_with("<|start_header_id|>"); }
bool is_code(std::string_view document) {
  return document.starts_with("def ") || document.starts_with("class ");
}

constexpr Kind kKinds[] = {
    {"chat", is_chat},
    {"code", is_code},
    {"text", [](std::string_view document) { return !is_chat(document) && !is_code(document); }},
};

void read_kinds(const Item& item, Spec& spec) {
  spec.kinds = split(item.value, "+");
  for (const std::string_view kind : spec.kinds) {
    if (std::ranges::find(kKinds, kind, &Kind::name) == std::end(kKinds)) {
      fail("--workload: there is no kind {}; there are {}, and kinds=chat+code means both",
           in_quotes(kind), names_in(kKinds));
    }
  }
}

struct SpecKey {
  std::string_view name;
  void (*read)(const Item& item, Spec& spec);
};

constexpr SpecKey kSpecKeys[] = {
    {"rate", [](const Item& i, Spec& s) { s.rate = i.number(1e-3, kInfinity); }},
    {"n", [](const Item& i, Spec& s) { s.n = i.integer(kRequestCounts); }},
    {"seed", [](const Item& i, Spec& s) { s.seed = i.number(std::uint64_t{0}, kMostSeed); }},
    {"min_new_tokens", [](const Item& i, Spec& s) { s.new_tokens.lowest = i.integer(kNewTokens); }},
    {"max_new_tokens",
     [](const Item& i, Spec& s) { s.new_tokens.highest = i.integer(kNewTokens); }},
    {"min_prompt", [](const Item& i, Spec& s) { s.prompt.lowest = i.integer(kPromptLengths); }},
    {"max_prompt", [](const Item& i, Spec& s) { s.prompt.highest = i.integer(kPromptLengths); }},
    {"sampled", [](const Item& i, Spec& s) { s.sampled = i.number(0.0, 1.0); }},
    {"kinds", read_kinds},
};

[[noreturn]] void fail_spec(std::string_view what) {
  fail("--workload: {}; write it like {}; the keys are {}", what, kDefaultWorkload,
       names_in(kSpecKeys));
}

// Fills in lengths that were not given.
void complete(Lengths& lengths, int lowest, int highest, std::string_view name) {
  if (lengths.highest == 0) lengths.highest = highest;
  if (lengths.lowest == 0) lengths.lowest = std::min(lowest, lengths.highest);
  if (lengths.lowest > lengths.highest) {
    fail("--workload: min_{0} is {1}, but max_{0} is only {2}", name, lengths.lowest,
         lengths.highest);
  }
}

Spec read_spec(std::string_view text, const RunOptions& defaults) {
  constexpr std::string_view kProcess = "poisson:";
  if (!text.starts_with(kProcess)) {
    fail_spec(fmt::format("{} does not begin with {}", in_quotes(text), kProcess));
  }
  Spec spec;
  std::set<std::string_view> given;
  for (const std::string_view part : split(text.substr(kProcess.size()), ",")) {
    const std::size_t equals = part.find('=');
    const std::string_view name = part.substr(0, equals);
    const auto* key = std::ranges::find(kSpecKeys, name, &SpecKey::name);
    if (key == std::end(kSpecKeys)) fail_spec(fmt::format("there is no key {}", in_quotes(name)));
    if (equals == std::string_view::npos) fail_spec(fmt::format("{} has no value", name));
    if (!given.insert(name).second) fail_spec(fmt::format("{} occurs twice", name));
    key->read({name, part.substr(equals + 1)}, spec);
  }
  if (!given.contains("rate")) fail_spec("rate is missing");
  if (!given.contains("n")) fail_spec("n is missing");
  complete(spec.prompt, 16, 192, "prompt");
  const int most = spec.new_tokens.highest > 0 ? spec.new_tokens.highest : defaults.max_new_tokens;
  complete(spec.new_tokens, std::max(1, most / 4), most, "new_tokens");
  return spec;
}

// What a random number decides: the index of its draw. Draws of tokens in stage 6 have index 0
// unless they are races, so they never share these numbers.
enum class Draw : TokenId { kGap = 1, kDocumentOfPool, kDocument, kPrompt, kNewTokens };

double draw(const Spec& spec, int number, Draw what) {
  return uniform(spec.seed, number, Purpose::kTarget, static_cast<TokenId>(what));
}

// A uniform whole number from lowest to highest.
int draw_between(const Spec& spec, int number, Draw what, Lengths range) {
  const double count = range.highest - range.lowest + 1;
  return range.lowest + static_cast<int>(draw(spec, number, what) * count);
}

bool wanted(const Spec& spec, std::string_view document) {
  return spec.kinds.empty() || std::ranges::any_of(kKinds, [&](const Kind& kind) {
           return kind.is(document) && std::ranges::find(spec.kinds, kind.name) != spec.kinds.end();
         });
}

// The wanted documents of the embedded text, without their begin and end tokens: the target's
// tokenizer adds its own begin token, and no prompt reaches the end.
std::vector<std::string_view> documents_of(const Spec& spec, std::string_view text) {
  std::vector<std::string_view> documents;
  for (std::string_view document : split(text, "<|begin_of_text|>")) {
    document = document.substr(0, document.find("<|end_of_text|>"));
    if (!document.empty() && wanted(spec, document)) documents.push_back(document);
  }
  return documents;
}

// Chooses random documents with more than min_prompt tokens, if possible one for every four
// requests.
std::vector<std::vector<TokenId>> choose_documents(const Spec& spec, const Tokenizer& tokenizer) {
  const std::string path = embedded_draft_text().string();
  const std::string text = read_text_file(path);
  std::vector<std::string_view> documents = documents_of(spec, text);
  std::vector<std::vector<TokenId>> pool;
  const auto enough = static_cast<std::size_t>((spec.n + 3) / 4);
  const int last = int_size(documents) - 1;
  for (int i = 0; i <= last && pool.size() < enough; i++) {
    const int other = draw_between(spec, i, Draw::kDocumentOfPool, {i, last});
    std::swap(documents[i], documents[other]);
    std::vector<TokenId> tokens = tokenizer.encode(documents[i]);
    if (std::ssize(tokens) > spec.prompt.lowest) pool.push_back(std::move(tokens));
  }
  if (pool.empty()) {
    fail("--workload: {} has no document of more than {} tokens; reduce min_prompt", path,
         spec.prompt.lowest);
  }
  return pool;
}

// An exponential gap with mean 1 / rate, by inversion, in nanoseconds. They are whole numbers
// because the last bit of a logarithm differs between machines.
std::int64_t gap(const Spec& spec, int number) {
  const double seconds = -std::log1p(-draw(spec, number, Draw::kGap)) / spec.rate;
  return std::llround(seconds * 1e9);
}

// Whether this request is sampled: number * share passes a whole number, at even distances.
bool is_sampled(const Spec& spec, int number) {
  return std::floor((number + 1) * spec.sampled) > std::floor(number * spec.sampled);
}

std::vector<TokenId> make_prompt(const Spec& spec, int number,
                                 const std::vector<std::vector<TokenId>>& pool) {
  const int last = int_size(pool) - 1;
  const int chosen = draw_between(spec, number, Draw::kDocument, {0, last});
  const std::vector<TokenId>& document = pool[chosen];
  const int most = std::min(spec.prompt.highest, int_size(document) - 1);
  return {document.begin(),
          document.begin() + draw_between(spec, number, Draw::kPrompt, {spec.prompt.lowest, most})};
}

}  // namespace

std::vector<RunOptions> make_workload(std::string_view text, const RunOptions& defaults,
                                      const ModelFiles& target) {
  const Spec spec = read_spec(text, defaults);
  if (!target.tokenizer) {
    fail("--workload: {}: no tokenizer.json to make prompts with; give --requests with prompt_ids",
         target.checkpoint.directory().string());
  }
  const std::vector<std::vector<TokenId>> pool = choose_documents(spec, *target.tokenizer);
  std::vector<RunOptions> requests;
  std::int64_t nanoseconds = 0;
  for (int i = 0; i < spec.n; i++) {
    nanoseconds += gap(spec, i);
    RunOptions request = defaults;
    request.id = std::to_string(i);
    request.where = fmt::format("--workload: request {}", i);
    request.arrival = static_cast<double>(nanoseconds) / 1e9;
    request.prompt_ids = make_prompt(spec, i, pool);
    request.max_new_tokens = draw_between(spec, i, Draw::kNewTokens, spec.new_tokens);
    request.seed = defaults.seed + static_cast<std::uint64_t>(i);
    if (is_sampled(spec, i)) request.sampling.temperature = 0.8;
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace specdec
