#pragma once
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "common/base/error.h"

namespace specdec {

// An empty directory of this test case's own, removed with everything in it at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::temp_directory_path() /
            fmt::format("specdec.{}.{}.{}", test->test_suite_name(), test->name(), ::getpid());
    std::filesystem::create_directories(path_);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::string& name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

// The message of the Error that `action` throws; "" when it throws none, which no expected message
// equals or contains.
template <typename Action>
std::string error_message(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::Not(::testing::HasSubstr("\n"))) << "one line";
    return error.what();
  }
  return "";
}

}  // namespace specdec

// Expects an Error whose message contains the text.
#define EXPECT_ERROR(statement, text)                                          \
  EXPECT_THAT(::specdec::error_message([&] { static_cast<void>(statement); }), \
              ::testing::HasSubstr(text))
