#pragma once
#include <nlohmann/json.hpp>

#include "common/base/json_value.h"

namespace specdec {

// For the few files that parse or print.
Json from_nlohmann(const nlohmann::json& value);
nlohmann::json to_nlohmann(const Json& value);

}  // namespace specdec
