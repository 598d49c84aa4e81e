#include "stages/programs/serve/service.h"

#include <algorithm>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "common/base/utf8.h"
#include "stages/programs/serve/answers.h"
#include "stages/programs/serve/page.h"
#include "stages/programs/serve/refusal.h"

namespace specdec {
namespace {

HttpAnswer json_answer(const Json& json) { return {.body = json.dump() + "\n"}; }

}  // namespace

const Service::Route Service::kRoutes[] = {
    {"/", "GET", false, false, &Service::page},
    {"/health", "GET", false, true, &Service::health},
    {"/v1/models", "GET", true, true, &Service::models},
    {"/v1/models/", "GET", true, true, &Service::model},  // and the model's name
    {"/metrics", "GET", true, true, &Service::metrics},
    {"/status", "GET", true, true, &Service::status},
    {"/v1/completions", "POST", true, true, nullptr},
    {"/v1/chat/completions", "POST", true, true, nullptr},
};

Service::Service(AccessRules rules, ServerFacts facts, const CompletionReader* reader,
                 SocketInbox* inbox)
    : rules_(std::move(rules)),
      facts_(std::move(facts)),
      reader_(reader),
      inbox_(inbox),
      opened_(seconds_since_1970()),
      run_(fmt::format("{:08x}", std::random_device()())) {}

void Service::operator()(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  const std::string id = fmt::format("{}-{}", run_, ++answers_);
  reply->add_headers({{"X-Request-Id", id}});
  try {
    rules_.check_site(request);
    reply->add_headers(rules_.cors(request));
    if (request.method == "OPTIONS") return reply->answer({.status = 204});
    const Route& found = route(request, *reply);
    if (found.needs_key) rules_.check_key(request);
    if (found.needs_model && reader_ == nullptr) {
      throw Refusal(503, "the model is being loaded", "", "loading");
    }
    if (found.answer == nullptr) return complete(request, id, reply);
    reply->answer((this->*found.answer)());
  } catch (const Refusal& refusal) {
    reply->answer(to_answer(refusal));
  }
}

const Service::Route& Service::route(const HttpRequest& request, Reply& reply) const {
  const bool of_model = reader_ != nullptr && request.path == "/v1/models/" + reader_->model();
  const std::string_view path = of_model ? "/v1/models/" : std::string_view(request.path);
  const auto found = std::ranges::find(kRoutes, path, &Route::path);
  if (found == std::end(kRoutes)) {
    throw Refusal(404, fmt::format("there is no {} here", in_quotes(request.path)));
  }
  std::string_view method = request.method;
  if (method == "HEAD") method = "GET";
  if (method != found->method) {
    const std::string_view allowed = found->method == "GET" ? "GET, HEAD" : found->method;
    reply.add_headers({{"Allow", std::string(allowed)}});
    throw Refusal(405, fmt::format("{} takes {}", found->path, allowed));
  }
  return *found;
}

void Service::complete(const HttpRequest& request, const std::string& id,
                       const std::shared_ptr<Reply>& reply) const {
  const bool is_chat = request.path == "/v1/chat/completions";
  CompletionRequest completion = reader_->read(request.body, is_chat);
  completion.batch.id = (is_chat ? "chatcmpl-" : "cmpl-") + id;
  inbox_->submit(std::move(completion), reply);
}

HttpAnswer Service::page() const {
  return {.body = std::string(kPage),
          .type = "text/html; charset=utf-8",
          // What the page may load and run, it says itself; who may show it, only a header can.
          .headers = {{"Content-Security-Policy", "frame-ancestors 'none'"},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Cache-Control", "no-cache"}}};
}

HttpAnswer Service::health() const { return json_answer(Json::parse(R"({"status": "ok"})")); }

Json Service::model_json() const {
  return {
      {"id", reader_->model()}, {"object", "model"}, {"created", opened_}, {"owned_by", "specdec"}};
}

HttpAnswer Service::model() const { return json_answer(model_json()); }

HttpAnswer Service::models() const {
  return json_answer({{"object", "list"}, {"data", Json::array({model_json()})}});
}

HttpAnswer Service::metrics() const {
  return {.body = inbox_->view()->metrics.to_text(reader_->model()),
          .type = "text/plain; version=0.0.4; charset=utf-8"};
}

HttpAnswer Service::status() const {
  Json status = to_json(*inbox_->view(), inbox_->now());
  status["model"] = reader_->model();
  status["draft"] = facts_.draft;
  status["stage"] = facts_.stage;
  status["max_batch"] = facts_.max_batch;
  status["spec_length"] = facts_.spec_length;
  status["options"] = reader_->options();
  return json_answer(status);
}

}  // namespace specdec
