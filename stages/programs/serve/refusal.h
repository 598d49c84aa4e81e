#pragma once
#include <stdexcept>
#include <string>

#include "common/base/json_value.h"
#include "stages/programs/serve/reply.h"

namespace specdec {

// Why a request is not served, in the protocol's terms. param: the field of the request that is
// wrong; "": none. code: a word for programs; "": none.
class Refusal : public std::runtime_error {
 public:
  Refusal(int status_, const std::string& message, std::string param_ = "", std::string code_ = "")
      : runtime_error(message), status(status_), param(std::move(param_)), code(std::move(code_)) {}

  int status;
  std::string param, code;
};

// {"error": {"message", "type", "param", "code"}}
Json error_json(const Refusal& refusal);

// The answer outside of a stream. One that may be tried again says when.
HttpAnswer to_answer(const Refusal& refusal);

}  // namespace specdec
