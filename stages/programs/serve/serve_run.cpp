#include "stages/programs/serve/serve_run.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "common/base/error.h"
#include "common/base/exit_code.h"
#include "common/base/streams.h"
#include "stages/06_batched_verification/serve.h"
#include "stages/programs/serve/service.h"

namespace specdec {
namespace {

std::atomic<bool> stop_asked = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler writes it

// The first signal ends the server in good order, a second one at once.
void end_on_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { stop_asked = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
}

void warn_of_others(const RunOptions& options, const Listener& listener) {
  if (listener.is_loopback) return;
  say("note: --serve {}: other machines can reach this address, and {}\n", options.serve,
      options.api_key_file.empty()
          ? "all of them may use the server; --api-key-file FILE would ask them for a key"
          : "those with the key may use the server; the key and all texts travel unencrypted");
}

// The context of a request: the pages for --max-batch of them are there from the beginning.
RunOptions with_context(RunOptions options, const ModelFiles& files) {
  constexpr int kUsualContext = 2048;
  if (options.max_context == 0) {
    options.max_context = std::min(files.checkpoint.config().max_seq_len, kUsualContext);
  }
  return options;
}

// A request that measures what passes and drafts cost.
BatchRequest example(const ServedStage& stage, const ModelFiles& files, RunOptions options) {
  constexpr int kTokens = 16;
  options.max_new_tokens = kTokens;
  options.ignore_eos = true;
  options.stop.clear();
  return stage.make(files, options);
}

std::string name_of_model(const RunOptions& options) {
  return std::filesystem::weakly_canonical(options.target).filename().string();
}

ServerFacts facts_of(const RunOptions& options) {
  return {.draft = options.no_speculation ? "" : std::string(name_of(options.draft_kind)),
          .stage = stage_name(options.stage),
          .max_batch = options.max_batch,
          .spec_length = 0};
}

HttpHandler handler(Service service) {
  return [service = std::make_shared<Service>(std::move(service))](
             const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
    (*service)(request, reply);
  };
}

// Closes the server before what its handler uses is gone.
struct Closing {
  HttpServer& server;
  ~Closing() { server.close(); }
};

}  // namespace

int serve_run(const RunOptions& given,
              const std::function<ServedStage(const ModelFiles&, const RunOptions&)>& of_stage) {
  const std::string key = given.api_key_file.empty() ? "" : read_api_key(given.api_key_file);
  const AccessRules rules(host_of(given.serve), key, given.allow_origin);
  ServerFacts facts = facts_of(given);
  const Listener listener = listen_at(given.serve);
  const HttpLimits limits{.connections = given.max_connections,
                          .connections_per_address = std::max(1, given.max_connections / 2)};
  HttpServer server(listener, limits, handler(Service(rules, facts)));
  warn_of_others(given, listener);

  ModelFiles files = open_model(given.target);
  if (!files.tokenizer) fail("--serve: {} has no tokenizer.json", given.target);
  const RunOptions options = with_context(given, files);
  const ServedStage stage = of_stage(files, options);
  BatchSession session(options, std::move(files), stage.parts);
  if (stage.begin) stage.begin(session);
  if (!options.quiet) say_text(session.memory.to_text() + session.announcement);
  facts.spec_length = session.sizes.spec_length;

  const CompletionReader reader(options, session.files, name_of_model(options), stage.make);
  SocketInbox inbox(session, reader.model(), options.max_queue, stop_asked);
  inbox.warm_up(example(stage, session.files, options));
  const Closing closing{server};
  server.handle_by(handler(Service(rules, facts, &reader, &inbox)));
  end_on_signals();
  fmt::print("Serving {} at {}\n", reader.model(), listener.url);
  flush_stdout();
  serve(session.engine, inbox);
  return kGood;
}

}  // namespace specdec
