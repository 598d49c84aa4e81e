#include "stages/06_batched_verification/step_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace specdec {

int StepReport::rounds() const {
  int n = 0;
  for (const Part& part : parts) n += part.is_round() ? 1 : 0;
  return n;
}

int StepReport::emitted() const {
  int n = 0;
  for (const Part& part : parts) n += part.emitted;
  return n;
}

int StepReport::rows() const {
  int n = 0;
  for (const Part& part : parts) n += part.rows;
  return n;
}

std::string to_text(const StepReport& report) {
  std::string line = fmt::format("step {}:", report.step);
  const auto list = [&](std::string_view what, const std::vector<RequestId>& ids) {
    if (!ids.empty()) line += fmt::format(" {} {};", what, fmt::join(ids, " "));
  };
  if (report.given_up) line += " given up;";
  list("preempt", report.preempted);
  if (!report.admitted.empty()) line += " admit";
  for (const StepReport::Admission& admission : report.admitted) {
    line += fmt::format(" {}", admission.id);
    if (admission.found > 0) line += fmt::format(" ({} found)", admission.found);
  }
  if (!report.admitted.empty()) line += ";";
  for (const StepReport::Part& part : report.parts) {
    if (!part.is_round()) {
      line += fmt::format(" {} prefills {}", part.id, part.prefilled);
      if (part.draft_prefilled > 0 && part.draft_prefilled != part.prefilled) {
        line += fmt::format(" (draft {})", part.draft_prefilled);
      }
    } else if (part.round.drafted == 0) {
      line += fmt::format(" {} steps", part.id);
    } else {
      line += fmt::format(" {} keeps {} of {}", part.id, part.round.accepted, part.round.drafted);
    }
    line += part.length > 0 ? fmt::format(" [{}],", part.length) : ",";
  }
  if (line.ends_with(',')) line.back() = ';';
  list("finish", report.finished);
  return line + fmt::format(
                    " {} rows; {} waiting, {} prefilling, {} running; pages {} (most {}), "
                    "draft {} (most {})",
                    report.rows(), report.waiting, report.prefilling, report.running, report.pages,
                    report.most_pages, report.draft_pages, report.most_draft_pages);
}

}  // namespace specdec
