#pragma once
#include <string>

#include "common/base/json_value.h"

namespace specdec {

// What a stage adds to its report.
struct ReportExtras {
  Json fields = Json::object();  // of the whole object
  Json stats = Json::object();   // of "stats"
  std::string summary;           // lines after the summary line
};

}  // namespace specdec
