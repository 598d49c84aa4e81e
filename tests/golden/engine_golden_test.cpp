// The engine against every golden file of every model, on stage 2's cache and on stage 3's.
#include "stages/programs/check/golden_check.h"
#include "tests/engine_fixture.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

using Case = std::tuple<std::string, int>;  // model, page size

class EngineGoldenTest : public ::testing::TestWithParam<Case> {};

TEST_P(EngineGoldenTest, AgreesInEverything) {
  const auto& [name, page_size] = GetParam();
  const auto goldens = std::filesystem::path(SPECDEC_GOLDEN_DIR) / "goldens" / name;
  const Checkpoint checkpoint(golden_model(name));
  Engine engine(name, make_cpu_backend(2), page_size, {}, 1,
                longest_golden(goldens, checkpoint.config()));
  CheckList list(/*print=*/false);
  check_goldens(goldens, checked_engine(checkpoint, *engine.llama, *engine.cache), list);
  EXPECT_EQ(list.failed(), 0) << list.failures();
  EXPECT_EQ(list.near_ties, 0);
  EXPECT_GE(list.checked(), 7);
}

INSTANTIATE_TEST_SUITE_P(
    Models, EngineGoldenTest,
    ::testing::Combine(::testing::Values("target", "draft", "untied", "plain_rope", "one_kv_head",
                                         "all_kv_heads", "wide_heads", "sharded", "newer_spelling"),
                       ::testing::Values(kContiguous, 16)),
    [](const auto& param) {
      return std::get<0>(param.param) + (std::get<1>(param.param) == 0 ? "_contiguous" : "_paged");
    });

}  // namespace
}  // namespace specdec
