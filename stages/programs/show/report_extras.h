#pragma once
#include <string>

#include <nlohmann/json.hpp>

namespace specdec {

// What a stage adds to its report.
struct ReportExtras {
  nlohmann::json fields = nlohmann::json::object();  // of the whole object
  nlohmann::json stats = nlohmann::json::object();   // of "stats"
  std::string summary;                               // lines after the summary line
};

}  // namespace specdec
