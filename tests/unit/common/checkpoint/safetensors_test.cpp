// The reader against files made byte by byte, the writer against the reader and against the sizes
// of the published files.
#include "common/checkpoint/safetensors.h"

#include <cstring>

#include "common/checkpoint/safetensors_writer.h"
#include "tests/checkpoint_builder.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

// A file with this header text and this many bytes of data (0, 1, 2, ...).
std::string file_with(std::string_view header, std::size_t data_bytes) {
  std::string file(8, '\0');
  for (std::size_t i = 0; i < 8; i++) file[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  file += header;
  for (std::size_t i = 0; i < data_bytes; i++) file += static_cast<char>(i);
  return file;
}

SafetensorsHeader parsed(std::string_view file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "f.safetensors");
}

TEST(SafetensorsTest, ReadsNamesTypesShapesAndRanges) {
  const auto header = parsed(file_with(
      R"({"b":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]},"__metadata__":{"format":"pt"},)"
      R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}   )",
      12));
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].dtype, DType::kBF16);
  EXPECT_EQ(header.tensors[1].shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(header.tensors[1].begin, 4u);
  EXPECT_EQ(header.tensors[1].end, 12u);
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(SafetensorsTest, ScalarsEmptyTensorsAndEmptyFilesAreLegal) {
  EXPECT_TRUE(parsed(file_with("{}", 0)).tensors.empty());
  const auto header =
      parsed(file_with(R"({"full":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                       R"("empty":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},)"
                       R"("scalar":{"dtype":"I8","shape":[],"data_offsets":[3,4]}})",
                       4));
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0].name, "empty");
  EXPECT_EQ(header.tensors[2].name, "scalar");
}

TEST(SafetensorsTest, EveryTypeHasItsSize) {
  for (int i = 0; i <= static_cast<int>(DType::kU64); i++) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype);
    const std::string name(dtype_name(dtype));
    const int bytes = dtype_bits(dtype) * 4 / 8;
    const auto header = parsed(file_with(
        fmt::format(R"({{"t":{{"dtype":"{}","shape":[4],"data_offsets":[0,{}]}}}})", name, bytes),
        static_cast<std::size_t>(bytes)));
    EXPECT_EQ(header.tensors.at(0).dtype, dtype) << name;
  }
  EXPECT_EQ(dtype_from_name("F128"), std::nullopt);
}

struct BadFile {
  const char* what;
  std::string file;
  const char* message;
};

std::string one(std::string_view fields, std::size_t data_bytes) {
  return file_with(fmt::format(R"({{"w":{{{}}}}})", fields), data_bytes);
}

std::vector<BadFile> bad_files() {
  constexpr const char* kGood = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  std::string huge = file_with("{}", 0);
  huge[4] = 1;
  std::string cut = one(kGood, 8);
  cut.resize(20);
  return {
      {"no bytes", "", "0 bytes is too short"},
      {"seven bytes", "1234567", "7 bytes is too short"},
      {"a length of gigabytes", huge, "longer than the format allows (100000000)"},
      {"cut in the header", cut, "but the file ends after 12: it is truncated"},
      {"cut in the data", one(kGood, 7), "need 8 bytes, but the file holds 7: it is truncated"},
      {"bytes after the data", one(kGood, 9), "1 bytes follow the last tensor"},
      {"other text", file_with("PK..........", 0), "does not begin with '{'"},
      {"leading space", file_with(" {}", 0), "does not begin with '{'"},
      {"empty header", file_with("", 0), "does not begin with '{'"},
      {"no JSON", file_with("{\"a\":\n  oops}", 0), "header: not valid JSON at line 2, column 3"},
      {"not UTF-8", file_with("{\"a\xFF\":1}", 0), "not valid JSON at line 1"},
      {"text after JSON", file_with("{} x", 0), "not valid JSON at line 1, column 4"},
      {"a huge number", file_with(R"({"w":1e999})", 0), "a number that is out of range"},
      {"tensor is a list", file_with(R"({"w":[1]})", 0), "tensor w: expected an object"},
      {"twice", file_with(R"({"w":{},"w":{}})", 0), "the key \"w\" occurs twice"},
      {"no dtype", one(R"("shape":[2],"data_offsets":[0,8])", 8), "the field dtype is missing"},
      {"no shape", one(R"("dtype":"F32","data_offsets":[0,8])", 8), "the field shape is missing"},
      {"no offsets", one(R"("dtype":"F32","shape":[2])", 8), "the field data_offsets is missing"},
      {"unknown dtype", one(R"("dtype":"Q4","shape":[2],"data_offsets":[0,8])", 8),
       "tensor w: the dtype \"Q4\" is unknown"},
      {"dtype is a number", one(R"("dtype":4,"shape":[2],"data_offsets":[0,8])", 8),
       "dtype is 4; it must be a string"},
      {"shape is a number", one(R"("dtype":"F32","shape":2,"data_offsets":[0,8])", 8),
       "shape is 2; it must be a list"},
      {"negative dimension", one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])", 8),
       "a dimension of shape is -2"},
      {"fractional dimension", one(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])", 8),
       "a dimension of shape is 2.0"},
      {"a dimension of 2^63",
       one(R"("dtype":"F32","shape":[9223372036854775808],)"
           R"("data_offsets":[0,8])",
           8),
       "is too large"},
      {"overflow", one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0),
       "more elements than 64 bits can count"},
      {"overflow to the right size",
       one(R"("dtype":"U8","shape":[2305843009213693952,8],"data_offsets":[0,0])", 0),
       "more elements than 64 bits can count"},
      {"half a byte", one(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])", 2),
       "its F4 elements do not fill whole bytes"},
      {"one offset", one(R"("dtype":"F32","shape":[2],"data_offsets":[8])", 8),
       "data_offsets is [8]; it must be [begin, end]"},
      {"negative offset", one(R"("dtype":"F32","shape":[2],"data_offsets":[-8,0])", 8),
       "the begin of data_offsets is -8"},
      {"end before begin", one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])", 8),
       "data_offsets end at 0, before they begin at 8"},
      {"too short for the shape", one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 4),
       "span 4 bytes, but its shape and dtype need 8"},
      {"hole at the start", one(R"("dtype":"U8","shape":[2],"data_offsets":[2,4])", 4),
       "begins at 2, where 0 is expected: there is a hole"},
      {"overlap",
       file_with(R"({"v":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                 R"("w":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                 3),
       "tensor w begins at 1, where 2 is expected: tensors overlap"},
      {"hole",
       file_with(R"({"v":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                 R"("w":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})",
                 4),
       "tensor w begins at 3, where 2 is expected: there is a hole"},
      {"metadata of numbers", file_with(R"({"__metadata__":{"a":1}})", 0),
       "__metadata__: a is 1; it must be a string"},
      {"metadata is text", file_with(R"({"__metadata__":"pt"})", 0),
       "__metadata__: expected an object"},
  };
}

TEST(SafetensorsBadInputTest, EachKindHasItsMessage) {
  for (const BadFile& bad : bad_files()) {
    const std::string message = error_message([&] { parsed(bad.file); });
    EXPECT_THAT(message, ::testing::StartsWith("f.safetensors: ")) << bad.what;
    EXPECT_THAT(message, ::testing::HasSubstr(bad.message)) << bad.what;
  }
}

TEST(SafetensorsBadInputTest, DeepNestingIsNoStackOverflow) {
  const std::string deep(1'000'000, '[');
  EXPECT_ERROR(parsed(file_with("{\"a\":" + deep, 0)), "nested more than 100 levels deep");
}

// Whatever byte is damaged or cut off: an Error, or a header whose ranges fit the file.
TEST(SafetensorsBadInputTest, DamagedFilesNeverGiveRangesOutsideTheFile) {
  const std::string good = file_with(R"({"v":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                     R"("w":{"dtype":"BF16","shape":[1,2],"data_offsets":[2,6]}})",
                                     6);
  ASSERT_EQ(parsed(good).tensors.size(), 2u);
  int accepted = 0;
  const auto check = [&](const std::string& file) {
    try {
      const auto header = parsed(file);
      accepted++;
      std::uint64_t position = header.data_start;
      for (const TensorEntry& tensor : header.tensors) {
        ASSERT_EQ(header.data_start + tensor.begin, position);
        position = header.data_start + tensor.end;
      }
      ASSERT_EQ(position, file.size());
    } catch (const Error&) {  // refused: fine
    }
  };
  for (std::size_t i = 0; i < good.size(); i++) {
    check(good.substr(0, i));
    for (int value = 0; value < 256; value++) {
      std::string damaged = good;
      damaged[i] = static_cast<char>(value);
      check(damaged);
    }
  }
  EXPECT_GT(accepted, 256 * 6) << "changed data bytes are accepted, so the check above runs";
}

TEST(SafetensorsFileTest, MissingFilesAndDirectoriesAreRefused) {
  const TemporaryDirectory directory;
  EXPECT_ERROR(SafetensorsFile(directory.path() / "none"), "cannot be opened: No such file");
  EXPECT_ERROR(SafetensorsFile(directory.path()), "is not a regular file");
  EXPECT_ERROR(SafetensorsFile(directory.write("empty", "")), "0 bytes is too short");
}

TEST(SafetensorsWriterTest, WhatIsWrittenIsReadBack) {
  const TemporaryDirectory directory;
  const std::vector<float> floats{1.5f, -2.0f, 3.25f};
  const std::vector<std::uint16_t> halves{1, 2, 3, 4};
  const std::vector<NamedTensor> tensors{
      {"half", {DType::kBF16, {2, 2}, std::as_bytes(std::span(halves))}},
      {"b", {DType::kF32, {3}, std::as_bytes(std::span(floats))}},
      {"a \"quoted\" π", {DType::kF32, {1}, std::as_bytes(std::span(floats).first(1))}},
      {"empty", {DType::kF32, {0}, {}}},
  };
  const auto path = directory.path() / "out.safetensors";
  write_safetensors(path, tensors, {{"format", "pt"}, {"made by", "a test"}});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.header().metadata.at("made by"), "a test");
  EXPECT_EQ(file.header().data_start % 8, 0u);
  ASSERT_EQ(file.header().tensors.size(), tensors.size());
  EXPECT_EQ(file.header().tensors[0].name, "a \"quoted\" π") << "widest type first, then by name";
  EXPECT_EQ(file.header().tensors[3].name, "half");
  for (const NamedTensor& tensor : tensors) {
    const TensorView read = file.tensor(tensor.name);
    EXPECT_EQ(read.dtype, tensor.view.dtype);
    EXPECT_EQ(read.shape, tensor.view.shape);
    EXPECT_THAT(read.bytes, ::testing::ElementsAreArray(tensor.view.bytes));
  }
  EXPECT_ERROR(file.tensor("c"), "the tensor c is missing");
}

TEST(SafetensorsWriterTest, LeavesNothingBehindWhenItFails) {
  const TemporaryDirectory directory;
  EXPECT_ERROR(write_safetensors(directory.path() / "no" / "f", {}), "cannot be written: No such");
  EXPECT_ERROR(write_safetensors(directory.path(), {}), "is a directory");
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  EXPECT_ERROR(write_safetensors("/dev/full/f", {}), "cannot be written");
}

TEST(SafetensorsWriterDeathTest, ViewsMustFitTheirShapes) {
  const TemporaryDirectory directory;
  const std::vector<NamedTensor> short_view{{"w", {DType::kF32, {3}, {}}}};
  EXPECT_DEATH(write_safetensors(directory.path() / "f", short_view),
               "to have the 12 that its shape needs");
}

// The published model.safetensors of Llama-3.2-1B-Instruct has a header of 16,800 bytes and
// 2,471,645,608 bytes in all: names, order, types and JSON spelling all enter that number.
TEST(SafetensorsWriterTest, HeaderOfThePublished1BHasItsExactSize) {
  std::vector<TensorEntry> tensors = llama_tensors(llama_3_2_1b_config());
  EXPECT_EQ(tensors.size(), 146u);
  const std::string header = safetensors_header(tensors, {{"format", "pt"}});
  EXPECT_EQ(header.size(), 8u + 16'800u);
  EXPECT_EQ(header.size() + tensors.back().end, 2'471'645'608u);
}

}  // namespace
}  // namespace specdec
