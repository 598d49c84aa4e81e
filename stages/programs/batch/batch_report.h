#pragma once
#include <cstdio>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/json_value.h"
#include "stages/programs/batch/batch_session.h"

namespace specdec {

// Reports on a run of many requests: its progress on a terminal, a line for each finished request,
// the results in the order of the input, a summary, a trace.
class BatchReport {
 public:
  // REQUIRES: both outlive this object.
  BatchReport(BatchSession& session, std::span<const BatchRequest> requests);
  ~BatchReport();

  void begin();  // prints the memory plan
  // Call one of these for each request. place: its index in the input. id: its id in the engine.
  void refused(std::size_t place, const std::string& error);
  void added(std::size_t place, RequestId id) { places_.emplace(id, place); }
  // The engine's callback for that request: streams its text to stdout, in the order of the input.
  // REQUIRES: this object outlives the request.
  OnDelivery delivery(std::size_t place);
  void after_step(const StepReport& report);

  // Call after the last step. Prints the summary and writes the files. Returns the exit code, which
  // says whether every request could be run. Throws Error.
  int finish();

 private:
  void complain(std::size_t place, std::string_view what, const std::string& error);
  void take(RequestId id, std::size_t place);
  void print_due();
  void print(std::size_t place);
  void stream();
  void show_progress(const StepReport& report);
  void clear_progress();
  void write_line(const std::string& line);
  Json result_json(const RequestResult& result, const BatchRequest& request) const;
  Json summary_json() const;
  Json trace_json() const;
  std::string summary() const;

  BatchSession& session_;
  std::span<const BatchRequest> requests_;
  bool text_;      // stdout gets texts, not JSON; stderr gets messages
  bool people_;    // the same, without --quiet
  bool progress_;  // stderr is a terminal that may show progress
  double shown_at_ = -1;
  bool shown_ = false;  // a line of progress is on the terminal
  std::map<RequestId, std::size_t> places_;
  std::vector<std::optional<RequestResult>> results_;  // in the order of the input
  std::size_t printed_ = 0;                            // results printed so far
  std::vector<std::string> texts_;                     // texts delivered so far
  std::size_t streamed_ = 0;                           // bytes printed of the text that comes next
  bool begun_ = false;                                 // its heading is printed
  int done_ = 0, failed_ = 0;
  std::string lines_;  // of JSON, for --report
  std::vector<StepReport> steps_;
};

}  // namespace specdec
