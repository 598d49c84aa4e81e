#pragma once
#include <cstdlib>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace specdec {

// Ends the SetUp() of a test that has no GPU to run on: the test is skipped, or it fails in a run
// that demands a GPU (SPECDEC_REQUIRE_GPU=1).
inline void end_without_gpu(const std::string& problem) {
  const char* value = std::getenv("SPECDEC_REQUIRE_GPU");
  if (value != nullptr && std::string_view(value) == "1") {
    FAIL() << "SPECDEC_REQUIRE_GPU=1, and there is no GPU: " << problem;
  }
  GTEST_SKIP() << "NOT CHECKED: " << problem;
}

}  // namespace specdec
