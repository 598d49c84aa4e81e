#pragma once
#include <string>

#include "common/base/json_value.h"

namespace specdec {

// A stage's own part of the report.
struct ReportExtras {
  Json fields = Json::object();  // added to the report's object
  Json stats = Json::object();   // added to its "stats" object
  std::string summary;           // lines that follow the summary line
};

}  // namespace specdec
