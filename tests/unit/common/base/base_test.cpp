
#include <cmath>
#include <limits>

#include "common/base/check.h"
#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/base/message.h"
#include "common/base/number_range.h"
#include "common/base/output_file.h"
#include "kernels/cuda_support.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

TEST(CheckTest, AbortsAndSaysWhatWasExpected) {
  SPECDEC_CHECK(1 + 1 == 2, "arithmetic");
  EXPECT_DEATH(SPECDEC_CHECK(1 > 2, "two, not {}", 1),
               "base_test.cpp:[0-9]+: broken invariant: 1 > 2 does not hold; expected two, not 1");
}

TEST(ErrorTest, MessagesAreOneLineWhateverTheyQuote) {
  EXPECT_ERROR(fail("{}: no", "a\nb\x1b[2J\xff"), "a\\nb\\u001b[2J\xEF\xBF\xBD: no");
  const std::string megabytes(5 << 20, '\x07');
  const std::string message = error_message([&] { fail("{}: do this", megabytes); });
  EXPECT_LT(message.size(), 3000u);
  EXPECT_THAT(message, ::testing::EndsWith(": do this"));
}

TEST(ErrorTest, AFilesTroubleIsToldWithoutTheLibrarysWords) {
  const auto message = [](const std::filesystem::path& path) {
    try {
      static_cast<void>(std::filesystem::file_size(path));
    } catch (const std::exception& error) {
      return message_of(error);
    }
    return std::string("none");
  };
  EXPECT_EQ(message("no/such/file"), "no/such/file: No such file or directory");
  EXPECT_EQ(message(""), "the current directory: No such file or directory");
  EXPECT_EQ(message_of(std::runtime_error("a\tb")), "a\\u0009b");
}

TEST(MappedFileTest, ANameWithANulIsNoName) {
  const std::string here = "/proc/self/status";
  EXPECT_ERROR(MappedFile(here + std::string("\0x", 2)), "no file has a NUL in its name");
}

TEST(NumberRangeTest, SaysWhatItHas) {
  const NumberRange any, half_open{.lowest = 0, .highest = 1, .below_highest = true};
  const NumberRange probability{
      .lowest = 0, .highest = 1, .above_lowest = true, .remark = "1: all"};
  EXPECT_EQ(any.words(), "a number");
  EXPECT_EQ(half_open.words(), "a number of at least 0 and below 1");
  EXPECT_EQ(probability.words(), "a number above 0 and at most 1 (1: all)");
  EXPECT_EQ(NumberRange{.highest = 2}.words(), "a number of at most 2");
  EXPECT_TRUE(half_open.has(0) && !half_open.has(1) && !half_open.has(-1e-300));
  EXPECT_TRUE(!probability.has(0) && probability.has(1) && !probability.has(1.0000001));
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) EXPECT_FALSE(any.has(bad));
  EXPECT_ERROR(check_range(half_open, 1, "--x"), "--x is 1; it takes a number of at least 0 and");
}

TEST(JsonTest, ErrorsNameTheFileAndThePlace) {
  EXPECT_ERROR(parse_json("", "c.json"), "c.json: not valid JSON at line 1, column 1");
  EXPECT_ERROR(parse_json("{\"a\": 1,\n\n  }", "c.json"), "c.json: not valid JSON at line 3");
  EXPECT_ERROR(parse_json("{\"a\": {\"b\": 1, \"b\": 2}}", "c.json"), "the key \"b\" occurs twice");
  EXPECT_EQ(parse_json("{\"a\": {\"b\": 1}, \"b\": 2}", "c.json")["b"], 2);
}

TEST(JsonTest, ALineHasColumnsAlone) {
  EXPECT_ERROR(parse_json_line("{\"a\": oops}", "c.jsonl:7"),
               "c.jsonl:7: not valid JSON at column 7");
  EXPECT_EQ(parse_json_line("{\"a\": 1}", "c.jsonl:7")["a"], 1);
}

TEST(JsonTest, DeepNestingIsRefusedAndNoStackOverflow) {
  const auto nested = [](std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_ERROR(parse_json(nested(1'000'000), "c.json"),
               "c.json: JSON that is nested more than 100");
  EXPECT_NO_THROW(parse_json(nested(100), "c.json"));
}

TEST(JsonTest, ANulIsNotTheEnd) {
  using namespace std::string_literals;
  EXPECT_ERROR(parse_json("{\"a\": 1}\0"s, "c.json"), "c.json: not valid JSON at line 1, column 9");
  EXPECT_ERROR(parse_json("{\"a\": 1}\n\0{}"s, "c.json"), "not valid JSON at line 2, column 1");
  EXPECT_ERROR(parse_json_line("[1, \0 2]"s, "c.jsonl:7"), "c.jsonl:7: not valid JSON at column 5");
}

TEST(JsonTest, NumbersBeyondTheirRangeAreRefused) {
  EXPECT_ERROR(parse_json("[1e999]", "c.json"), "c.json: holds a number that is out of range");
  EXPECT_EQ(parse_json("18446744073709551615", "c.json").get<std::uint64_t>(), ~std::uint64_t{0});
  EXPECT_EQ(parse_json("-9223372036854775808", "c.json").get<std::int64_t>(),
            std::numeric_limits<std::int64_t>::min());
}

// A parser that looks through a list again for each of its objects would need hours.
TEST(JsonTest, AMillionObjectsTakeNoLongerThanTheirText) {
  std::string text = "[{}";
  for (int i = 1; i < 1'000'000; i++) text += ",{}";
  EXPECT_EQ(parse_json(text + "]", "c.json").size(), 1'000'000u);
}

TEST(JsonTest, FieldsAreReadByType) {
  const Json root = parse_json(
      R"({"i": 7, "big": 2147483648, "f": 0.5, "s": "x", "t": true, "n": null, "o": {"i": 8}})",
      "c.json");
  const JsonObject object(root, "c.json");
  EXPECT_EQ(object.integer("i"), 7);
  EXPECT_EQ(object.number("i"), 7.0);
  EXPECT_EQ(object.number("f"), 0.5);
  EXPECT_EQ(object.string("s"), "x");
  EXPECT_EQ(object.boolean("t"), true);
  EXPECT_EQ(object.integer("n"), std::nullopt) << "null is absent";
  EXPECT_EQ(object.integer("none"), std::nullopt);
  EXPECT_EQ(object.object("o")->integer("i"), 8);
  EXPECT_ERROR(object.integer("big"),
               "c.json: big is 2147483648; it must be an integer below 2^31");
  EXPECT_ERROR(object.integer("f"), "f is 0.5; it must be an integer");
  EXPECT_ERROR(object.string("i"), "i is 7; it must be a string");
  EXPECT_ERROR(object.boolean("i"), "i is 7; it must be true or false");
  EXPECT_ERROR(object.number("s"), "s is \"x\"; it must be a number");
  EXPECT_ERROR(object.object("s"), "s is \"x\"; it must be an object");
  EXPECT_ERROR(object.required_integer("none"), "the field none is missing");
  EXPECT_ERROR(JsonObject(root["s"], "c.json"), "c.json: expected an object, found \"x\"");
}

TEST(JsonTest, ExcerptsAreShortAndKeepCharactersWhole) {
  EXPECT_EQ(excerpt("short"), "\"short\"");
  for (int spaces = 0; spaces < 4; spaces++) {
    std::string text(static_cast<std::size_t>(spaces), ' ');
    for (int i = 0; i < 30; i++) text += "é";
    const std::string result = excerpt(text);
    EXPECT_LE(result.size(), 40u);
    EXPECT_NO_THROW(static_cast<void>(Json(result).dump())) << "valid UTF-8";
  }
}

// The name of a file may be any bytes, and so may an error that quotes it. A result that holds one
// is written all the same.
TEST(JsonTest, TextsAreUtf8WhateverTheyAreMadeOf) {
  const std::string latin1 = "caf\xE9/x", cut_off = "\xF0\x9F\xA6";
  EXPECT_EQ(Json(latin1).get<std::string>(), "caf\uFFFD/x");
  EXPECT_EQ(Json(std::string_view(cut_off)).get<std::string>(), "\uFFFD");
  EXPECT_EQ(Json(cut_off.c_str()).get<std::string>(), "\uFFFD");
  EXPECT_EQ(Json(std::vector{latin1}).dump(), "[\"caf\uFFFD/x\"]");
  const Json fields(std::map<std::string, std::string>{{latin1, latin1}});
  EXPECT_EQ(fields.dump(), "{\"caf\uFFFD/x\":\"caf\uFFFD/x\"}");
  const Json object = {{"target", latin1}};
  EXPECT_EQ(parse_json(object.dump(2), "what was written"), object);
  EXPECT_EQ(Json("café 🦙").get<std::string>(), "café 🦙");
}

TEST(OutputFileTest, AppearsWholeOrNotAtAll) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "f";
  {
    OutputFile file(path);
    file.write("half of i");
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  OutputFile file(path);
  file.write("all ");
  file.write("of it");
  file.commit();
  EXPECT_EQ(read_text_file(path), "all of it");
}

TEST(OutputFileTest, AFullDiskIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const TemporaryDirectory directory;
  // The file beside its place is a link to a device on which every write fails.
  std::filesystem::create_symlink("/dev/full",
                                  directory.path() / fmt::format("f.{}.partial", ::getpid()));
  OutputFile file(directory.path() / "f");
  EXPECT_ERROR(file.write("x"), "f: cannot be written: No space left on device");
}

TEST(CudaSupportTest, SaysInOneLineWhatIsWrong) {
  CudaFacts facts{.driver_version = 13010,
                  .runtime_version = 13000,
                  .error = "",
                  .devices = {{"A GPU", 90, 132, std::size_t{80} << 30}},
                  .architectures = "80, 90",
                  .has_code = true};
  EXPECT_EQ(cuda_problem(facts), "");
  facts.devices[0].compute_capability = 70;
  facts.has_code = false;
  EXPECT_EQ(cuda_problem(facts),
            "this program has code for compute capability 80, 90, and A GPU has 70; configure with "
            "-DCMAKE_CUDA_ARCHITECTURES=70");
  facts.devices.clear();
  EXPECT_EQ(cuda_problem(facts), "there is no CUDA device");
  facts.error = "out of order";
  EXPECT_EQ(cuda_problem(facts), "the driver says: out of order");
  facts.driver_version = 12040;
  EXPECT_EQ(cuda_problem(facts),
            "the NVIDIA driver is too old: it serves CUDA 12.4, this program was built with CUDA "
            "13.0; update the driver, or build with an older CUDA Toolkit");
  facts.driver_version = 0;
  EXPECT_EQ(cuda_problem(facts), "no NVIDIA driver is installed");
}

TEST(CudaSupportTest, SaysWhatItFindsOrWhyNothing) {
  const CudaSupport support = cuda_support();
  if (support.devices.empty()) {
    EXPECT_NE(support.problem, "");
  }
  if (!support.built) {
    EXPECT_THAT(support.problem, ::testing::HasSubstr("built without CUDA"));
  }
  if (support.devices.empty()) GTEST_SKIP() << "CUDA device: NOT CHECKED: " << support.problem;
  EXPECT_GE(support.devices[0].compute_capability, 75);
  EXPECT_GT(support.devices[0].memory_bytes, 0u);
}

}  // namespace
}  // namespace specdec
