#include "stages/programs/speculation/trace_file.h"

#include "common/base/output_file.h"
#include "stages/programs/run/stages.h"

namespace specdec {
namespace {

// Maps the id of every token that the trace mentions to its text.
Json pieces(const TraceFile& trace) {
  Json texts = Json::object();
  if (trace.tokenizer == nullptr) return texts;
  std::set<TokenId> ids = trace.tokens;
  ids.insert(trace.request.prompt.begin(), trace.request.prompt.end());
  ids.insert(trace.generation.tokens().begin(), trace.generation.tokens().end());
  for (const TokenId id : ids) {
    texts[fmt::format("{}", id)] = trace.tokenizer->decode(std::span(&id, 1), false);
  }
  return texts;
}

Json sampling_json(const RunOptions& options) {
  return {{"temperature", options.sampling.temperature},
          {"draft_temperature", options.draft_temperature.value_or(options.sampling.temperature)},
          {"top_k", options.sampling.top_k},
          {"top_p", options.sampling.top_p},
          {"repetition_penalty", options.sampling.repetition_penalty},
          {"seed", options.seed},
          {"lenience", options.lenience}};
}

}  // namespace

void write(const TraceFile& trace) {
  const RunOptions& options = trace.options;
  Json json = {{"format", trace.format},
               {"stage", stage_name(options.stage)},
               {"rule", trace.rule},
               {"lossless", trace.lossless},
               {"target", options.target},
               {"draft_kind", name_of(options.draft_kind)},
               {"draft", options.draft_kind == DraftKind::kLlama ? options.draft : ""},
               {"sampling", sampling_json(options)},
               {"page_size", trace.page_size},
               {"draft_page_size", trace.draft_page_size},
               {"spec_length", trace.spec_length},
               {"prompt_ids", trace.request.prompt},
               {"tokens", trace.generation.tokens()},
               {"text", trace.generation.text()},
               {"finish_reason", finish_reason_name(trace.generation.finish_reason())},
               {"pieces", pieces(trace)},
               {"stats", trace.stats},
               {"rounds", trace.rounds}};
  json.update(trace.more);
  if (!options.inflate_target.empty()) json["inflated_target"] = options.inflate_target;
  if (!options.inflate_draft.empty()) json["inflated_draft"] = options.inflate_draft;
  write_file(options.trace, json.dump() + "\n");
}

}  // namespace specdec
