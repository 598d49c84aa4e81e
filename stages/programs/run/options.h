#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/token_id.h"
#include "common/embedded_models.h"
#include "common/sampling/distribution.h"
#include "common/tokenizer/chat.h"
#include "stages/programs/run/choices.h"
#include "stages/programs/run/option.h"
#include "stages/programs/run/stages.h"

namespace specdec {

// Which sampling numbers are on the command line.
struct GivenSampling {
  bool temperature = false, top_k = false, top_p = false, repetition_penalty = false;
};

// The command line that all stages share. An option means the same in every stage that has it.
struct RunOptions {
  int stage = 0;

  std::string target = embedded_target().string();
  WeightFormat target_weights = WeightFormat::kStored;
  std::string inflate_target;  // a shape; empty: the target as it is
  // One of prompt, prompt_ids, chat and chat_file; the built-in prompt if all are empty.
  std::string prompt;
  std::vector<TokenId> prompt_ids;
  std::string chat;
  std::string system;
  std::string chat_file;
  // A chat of several turns, instead of chat and system. Not an option, but lines of --requests may
  // have it.
  std::vector<ChatMessage> messages;
  bool has_prompt = false, has_chat = false;  // given, perhaps as an empty text

  int max_new_tokens = 128;
  bool ignore_eos = false;
  std::vector<std::string> stop;
  int max_context = 0;  // 0: the prompt + max_new_tokens

  DeviceChoice device = DeviceChoice::kAuto;
  int threads = 0;  // 0: all cores
  Gemm gemm = Gemm::kInvariant;

  KvType kv_type = KvType::kF32;  // of every cache
  CacheKind cache = CacheKind::kPaged;
  int page_size = 16;
  int draft_page_size = 16;
  int pages = 0;  // 0: enough for the request, or for all of them

  // Stages 4 and later.
  std::string draft = embedded_draft().string();
  WeightFormat draft_weights = WeightFormat::kStored;
  std::string inflate_draft;  // as inflate_target
  DraftKind draft_kind = DraftKind::kLlama;
  std::string draft_text;  // what drafters count; empty: the embedded text, and none for suffix
  int spec_length = 5;
  bool auto_spec_length = false;   // --spec-length auto
  bool given_spec_length = false;  // as a number
  bool no_speculation = false;
  std::string trace;  // JSON file with every round

  // Stages 5 and later; earlier stages are greedy.
  SamplingOptions sampling;
  GivenSampling given_sampling;
  bool generation_config = false;           // sampling is then as the target's authors recommend
  std::optional<double> draft_temperature;  // none: as the target
  std::uint64_t seed = 0;
  std::string acceptance;  // a rule; empty: the first of the list, as for siblings
  double lenience = 1;

  // Stages 7 and later.
  DraftLength draft_length = DraftLength::kFixed;  // see draft_length_of()
  int min_spec_length = 1;
  double confidence = 0.4;
  double entropy_smoothing = 0;
  std::string cost_profile;                 // file; empty: one beside the programs
  std::string fallback;                     // KIND,KIND, instead of draft_kind; empty: none
  std::vector<std::string> draft_of_draft;  // directories and kinds; each drafts for the one before
  int inner_spec_length = 4;
  int ngram_fill = 0;
  int suffix_match = 1, suffix_memory = 0;
  int rows = 0;  // for the drafts of a batch
  bool auto_rows = false, given_rows = false;
  bool rows_change_texts = false;
  bool all_places = false;

  // Stage 8.
  std::vector<std::string> other_drafts;  // beside draft, for the same tree
  std::string tree = std::string(name_of(TreeKind::kTop)) + ":3x2x1";
  std::string siblings;
  std::string tree_profile;        // file; empty: the embedded pair's acceptances
  std::string write_tree_profile;  // file, when the run is done

  // Stage 9.
  bool given_draft_kind = false, given_self_draft = false;
  SelfDraftKind self_draft = SelfDraftKind::kFeature;
  std::string heads;   // their folder; empty: the embedded target's
  std::string markov;  // folder of a head that corrects --self-draft parallel; empty: none

  // Stage 10.
  int beams = 0;        // 0: 4, or in a batch one text
  int draft_beams = 0;  // 0: 6, or `beams` if that is more
  double length_penalty = 1;
  BeamStop early_stopping = BeamStop::kFalse;
  int num_return = 1;

  // Stages 6 and later.
  // Not options, but of every line of --requests, where `where` names it for messages.
  std::string id, where;
  double arrival = 0;  // seconds after the start

  std::string requests;  // JSON Lines, "-": stdin; at most one of requests, workload, serve, prompt
  std::string workload;
  std::string serve;         // HOST:PORT; the requests come from there
  std::string api_key_file;  // of the server; empty: no key is needed
  std::string allow_origin;  // the site whose pages may use the server; empty: none
  int max_queue = 256;       // the server's requests that wait
  int max_connections = 256;
  int max_batch = 16;       // requests that run at a time
  int token_budget = 0;     // rows of a pass of the target; 0: the program chooses
  int prefill_chunk = 128;  // tokens of a prompt in one pass
  int draft_pages = 0;      // 0: the program chooses
  bool no_prefix_cache = false;

  OutputFormat output = OutputFormat::kText;
  bool quiet = false;
  bool explain = false;
  bool check = false;
  std::string goldens;      // --check: golden files of the target; empty: the embedded target's
  std::string dump;         // stages 1 to 5: safetensors file, the prompt's forward pass
  std::string dump_logits;  // the same stages: the logits that decided each token
  std::string report;       // JSON file, the object of --output json

  bool is_chat() const { return has_chat || !chat_file.empty(); }
  bool has_many_requests() const {
    return !requests.empty() || !workload.empty() || !serve.empty();
  }
  bool wants_json() const { return output == OutputFormat::kJson || !report.empty(); }
  // Whether --draft says all drafts of a round in one pass (stage 9).
  bool drafts_in_parallel() const {
    return draft_kind == DraftKind::kLlama && self_draft == SelfDraftKind::kParallel;
  }
};

// Ranges of numbers that lines of --requests and workloads have, too.
inline constexpr IntegerRange kNewTokens{1, 1 << 30};     // --max-new-tokens
inline constexpr IntegerRange kContextSizes{1, 1 << 30};  // --max-context
inline constexpr IntegerRange kSpecLengths{1, 32};        // --spec-length
inline constexpr IntegerRange kRows{0, 1 << 20};          // --rows
inline constexpr IntegerRange kBeams{1, 1 << 20};         // --beams
inline constexpr NumberRange kLengthPenalties{.lowest = -16, .highest = 16};
inline constexpr int kLargestAutoSpecLength = 16;  // memory is allocated for it

// Tables of lessons that options name, for --help.
struct Listings {
  std::vector<Named> rules = {};     // of --acceptance
  std::vector<Named> siblings = {};  // of --siblings
};

// Every option of stages 1 and later, with the help of `stage`; they set the members of `options`.
std::vector<Option> all_options(int stage, RunOptions& options, const Listings& listings = {});

// The options that the stage has.
std::vector<Option> options_of_stage(int stage, RunOptions& options, const Listings& listings = {});

// The options that it lacks, so that it can refuse them by name; they set nothing.
std::vector<Option> options_of_other_stages(int stage);

}  // namespace specdec
