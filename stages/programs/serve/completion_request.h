#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/programs/batch/queue_inbox.h"

namespace specdec {

// What a client asked for: a request for the engine, and how the client wants the answer.
struct CompletionRequest {
  BatchRequest batch;  // its id is that of the answer
  bool is_chat = false;
  bool stream = false;
  bool include_usage = false;  // one more chunk, with the counts
  bool rounds = false;         // every chunk shows what its rounds drafted
  // The number of likeliest tokens whose log-probabilities come with each token's own; none: no
  // log-probabilities.
  std::optional<int> logprobs;
};

// Reads the bodies of POST /v1/completions and /v1/chat/completions. Sampling and speculation have
// the names and checks of a line of --requests (batch/request_list.h). What a request leaves out is
// as on the command line, but for the seed, which is then a new one.
class CompletionReader {
 public:
  // defaults: of the command line, without a prompt. model: its name for clients. make: of the
  // stage. REQUIRES: the files outlive this object.
  CompletionReader(RunOptions defaults, const ModelFiles& files, std::string model,
                   MakeBatchRequest make);

  // Throws Refusal: 404 for another model; 400, with the field's name, for a body that is no
  // request, a value that is out of range, a prompt that does not fit, a field of the protocol that
  // is not supported unless its value changes nothing, and for options of the whole server, among
  // them all that open files. Other unknown fields are ignored.
  CompletionRequest read(std::string_view body, bool is_chat) const;

  const std::string& model() const { return model_; }
  std::vector<std::string> options()
      const;  // that a request may have, beside the protocol's fields

 private:
  RunOptions defaults_;
  const ModelFiles& files_;
  std::string model_;
  MakeBatchRequest make_;
};

}  // namespace specdec
