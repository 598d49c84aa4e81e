#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "stages/programs/serve/access.h"
#include "stages/programs/serve/completion_request.h"
#include "stages/programs/serve/socket_inbox.h"

namespace specdec {

// What GET /status tells besides what changes.
struct ServerFacts {
  std::string draft;  // what drafts
  std::string stage;  // its program
  int max_batch = 0, spec_length = 0;
};

// The server's addresses: which part answers what. It may be asked by the server's thread alone.
class Service {
 public:
  // reader, inbox: null while the model is loaded; then most answers are 503. REQUIRES: they
  // outlive this object.
  Service(AccessRules rules, ServerFacts facts, const CompletionReader* reader = nullptr,
          SocketInbox* inbox = nullptr);

  void operator()(const HttpRequest& request, const std::shared_ptr<Reply>& reply);

 private:
  using Answer = HttpAnswer (Service::*)() const;
  struct Route {
    std::string_view path, method;
    bool needs_key, needs_model;
    Answer answer;  // null: a completion
  };
  static const Route kRoutes[];

  // Throws Refusal if there is none, or not for the method.
  const Route& route(const HttpRequest& request, Reply& reply) const;
  void complete(const HttpRequest& request, const std::string& id,
                const std::shared_ptr<Reply>& reply) const;
  HttpAnswer page() const;
  HttpAnswer health() const;
  Json model_json() const;
  HttpAnswer model() const;
  HttpAnswer models() const;
  HttpAnswer metrics() const;
  HttpAnswer status() const;

  AccessRules rules_;
  ServerFacts facts_;
  const CompletionReader* reader_;
  SocketInbox* inbox_;
  std::int64_t opened_;  // seconds since 1970
  std::string run_;      // part of all ids, other than in other runs
  std::int64_t answers_ = 0;
};

}  // namespace specdec
