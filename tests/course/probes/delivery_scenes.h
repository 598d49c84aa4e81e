#pragma once
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "common/embedded_models.h"
#include "common/tokenizer/tokenizer.h"
#include "tests/course/probes/engine_scenes.h"

namespace specdec::course {

// Says after each step who was told what: tokens, new text, and how a request ended. The stop texts
// hold text back that may be the beginning of one.
inline void tells_what_is_new(std::uint64_t seed) {
  World world(seed, 80, 80);
  const Tokenizer tokenizer = Tokenizer::load(embedded_target() / "tokenizer.json");
  EngineOptions options = options_of(false);
  options.check_invariants = false;
  options.clock = [] { return 0.0; };
  BatchEngine engine({.target = world.target,
                      .target_cache = world.target_cache,
                      .drafter = world.drafter,
                      .draft_cache = &world.draft_cache,
                      .tokenizer = &tokenizer},
                     options);
  std::string told;
  const auto listen = [&](const Delivery& d) {
    told += fmt::format("{}request {}: {} '{}'", told.empty() ? "" : "; ", d.id, d.tokens, d.text);
    if (d.finished) told += fmt::format(" {}", finish_reason_name(d.finish_reason));
    if (!d.error.empty()) told += ", with a message";
  };
  std::vector<BatchRequest> requests = {request_of(seed, 5, 14, 4), request_of(seed + 1, 9, 6, 2),
                                        request_of(seed + 2, 5, 1, 4),
                                        request_of(seed + 3, 4, 20, 4)};
  for (TokenId token = 0; token < kVocab; token += 3) {
    requests[0].generation.stop.push_back(tokenizer.decode(std::vector<TokenId>{token, 1, token}));
  }
  requests[3].generation.prompt[0] = World::kBroken;
  for (BatchRequest& request : requests) engine.add_request(std::move(request), listen);
  for (int step = 1; step <= kMostSteps && !engine.idle(); step++) {
    told.clear();
    engine.step();
    fact(fmt::format("told in step {}", step), told);
  }
}

}  // namespace specdec::course
