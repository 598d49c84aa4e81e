// A small workload, step by step, against the checked-in trace that the chapter explains.
// SPECDEC_WRITE_TRACE=FILE writes what the steps are now, without the explanations.
#include <cstdlib>
#include <fstream>

#include "common/golden_folder.h"
#include "tests/unit/stages/06_batched_verification/batch_engine_fixture.h"

namespace specdec {
namespace {

constexpr int kVocab = 100;

// A model that counts, and one that also counts but says 0 where a multiple of 4 would come.
TableModel::RowOf counts(bool errs_at_fours) {
  auto row = std::make_shared<std::vector<float>>(kVocab);
  return [=](std::span<const TokenId> prefix) {
    std::ranges::fill(*row, 0.f);
    const TokenId next = prefix.back() + 1;
    (*row)[static_cast<std::size_t>(errs_at_fours && next % 4 == 0 ? 0 : next)] = 9;
    return std::span<const float>(*row);
  };
}

std::vector<TokenId> count(TokenId first, TokenId last) {
  std::vector<TokenId> tokens;
  for (TokenId token = first; token <= last; token++) tokens.push_back(token);
  return tokens;
}

BatchSetup counting() {
  BatchSetup setup{.target = {8, 4}, .draft = {16, 2}};
  setup.options = {.max_batch = 3,
                   .spec_length = 3,
                   .token_budget = 12,
                   .prefill_chunk = 6,
                   .prefix_cache = true,
                   .check_invariants = true};
  setup.target_rows = counts(false);
  setup.draft_rows = counts(true);
  setup.vocab_size = kVocab;
  return setup;
}

std::vector<std::string> trace() {
  TestBatch batch(counting());
  std::vector<std::string> lines;
  const auto step = [&] { lines.push_back(to_text(batch.engine().step())); };
  batch.add(greedy_request(count(1, 10), 9, 3));   // 0: with speculation
  batch.add(greedy_request(count(50, 53), 8, 0));  // 1: without
  step();
  step();
  batch.add(greedy_request(count(1, 10), 4, 3));   // 2: begins as 0 does
  batch.add(greedy_request(count(70, 77), 3, 3));  // 3
  while (!batch.engine().idle()) step();
  const Results results = batch.take_results();
  EXPECT_EQ(results.at(0).tokens, count(11, 19));
  EXPECT_EQ(results.at(1).tokens, count(54, 61));
  EXPECT_EQ(results.at(2).tokens, count(11, 14));
  EXPECT_EQ(results.at(3).tokens, count(78, 80));
  batch.expect_no_leak();
  return lines;
}

// The lines that are no comments.
std::vector<std::string> golden_trace() {
  std::ifstream file(golden_folder() / "schedule/trace.txt");
  EXPECT_TRUE(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && !line.starts_with("#")) lines.push_back(line);
  }
  return lines;
}

TEST(ScheduleTraceTest, StepsAreThoseThatTheChapterExplains) {
  const std::vector<std::string> got = trace();
  if (const char* path = std::getenv("SPECDEC_WRITE_TRACE")) {
    std::ofstream file(path);
    for (const std::string& line : got) file << line << '\n';
  }
  const std::vector<std::string> want = golden_trace();
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); i++) {
    ASSERT_EQ(got[i], want[i]) << "the first step that differs is step " << i + 1;
  }
  ASSERT_EQ(got.size(), want.size()) << "steps";
}

TEST(ScheduleTraceTest, AReportIsALine) {
  StepReport report;
  report.step = 7;
  report.preempted = {4};
  report.admitted = {{2, 0}, {3, 8}};
  report.parts = {{.id = 0,
                   .rows = 5,
                   .round = {.start = 9, .drafted = 4, .accepted = 1},
                   .emitted = 2,
                   .length = 11},
                  {.id = 1, .rows = 1, .emitted = 1},
                  {.id = 2, .prefilled = 6, .draft_prefilled = 6, .rows = 6, .length = 6},
                  {.id = 5, .prefilled = 1, .draft_prefilled = 7, .rows = 1, .length = 9}};
  report.finished = {1};
  report.waiting = 1;
  report.prefilling = 2;
  report.running = 3;
  report.pages = 5;
  report.most_pages = 6;
  report.draft_pages = 3;
  report.most_draft_pages = 4;
  EXPECT_EQ(
      to_text(report),
      "step 7: preempt 4; admit 2 3 (8 found); 0 keeps 1 of 4 [11], 1 steps, 2 prefills 6 [6], "
      "5 prefills 1 (draft 7) [9]; finish 1; 13 rows; 1 waiting, 2 prefilling, 3 running; pages 5 "
      "(most 6), "
      "draft 3 (most 4)");
  EXPECT_EQ(report.rounds(), 2);
  EXPECT_EQ(report.emitted(), 3);
  EXPECT_EQ(report.rows(), 5 + 1 + 6 + 1);
}

TEST(ScheduleTraceTest, AStepThatWasGivenUpSaysSo) {
  StepReport report;
  report.given_up = true;
  EXPECT_THAT(to_text(report), ::testing::StartsWith("step 0: given up; 0 rows;"));
}

}  // namespace
}  // namespace specdec
