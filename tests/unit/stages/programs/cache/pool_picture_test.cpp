#include "stages/programs/cache/pool_picture.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "tests/test_support.h"
#include "tests/unit/common/memory_backend.h"

namespace specdec {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::StrEq;

constexpr KvShape kSmall{.n_layers = 1, .n_kv_heads = 1, .head_dim = 2};

constexpr const char* kLegend =
    "A█ full page of sequence A   A▂ partly full   2█ shared by 2 sequences   · free\n";

SequenceId append(PagedKvCache& cache, SequenceId id, int tokens) {
  const Extension extension{id, tokens};
  cache.extend({&extension, 1});
  return id;
}

int columns(const std::string& line) {  // characters that are no continuation bytes
  return static_cast<int>(std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }));
}

TEST(PoolPictureTest, AnEmptyPool) {
  MemoryBackend backend;
  const PagedKvCache cache(backend, kSmall, 3, 4);
  EXPECT_THAT(pool_picture(cache), StrEq("3 pages of 4 tokens: 0 in use, 0 of them shared, peak 0\n"
                                         "     0  ·  ·  ·\n" +
                                         std::string(kLegend)));
}

TEST(PoolPictureTest, OwnersSharersAndFilling) {
  MemoryBackend backend;
  PagedKvCache cache(backend, kSmall, 24, 8);
  const SequenceId a = append(cache, cache.create(), 27);
  const SequenceId b = append(cache, cache.share_prefix(a, 20), 13);
  append(cache, cache.create(), 1);
  cache.create();
  append(cache, cache.create(), 56);
  cache.release(append(cache, cache.create(), 8 * 9));
  cache.fork(b);
  EXPECT_THAT(pool_picture(cache),
              StrEq("24 pages of 8 tokens: 15 in use, 5 of them shared, peak 24\n"
                    "     0  3█ 3█ A█ A▃ 2█ 2█ 2▁ C▁ E█ E█ E█ E█ E█ E█ E█ ·  ·  ·  ·  ·\n"
                    "    20  ·  ·  ·  ·\n"
                    "A  sequence 0: 27 tokens in pages 0 1 2 3\n"
                    "B  sequence 1: 33 tokens in pages 0 1 4 5 6\n"
                    "C  sequence 2: 1 token in page 7\n"
                    "D  sequence 3: 0 tokens\n"
                    "E  sequence 4: 56 tokens in pages 8 9 10 11 12 13 14\n"
                    "F  sequence 5: 33 tokens in pages 0 1 4 5 6\n" +
                    std::string(kLegend)));
}

TEST(PoolPictureTest, ASharedPageIsAsFullAsItsFullestOwnerSees) {
  MemoryBackend backend;
  PagedKvCache cache(backend, kSmall, 2, 8);
  const SequenceId a = append(cache, cache.create(), 6);
  cache.share_prefix(a, 1);
  EXPECT_THAT(pool_picture(cache), HasSubstr("     0  2▆ ·\n"));
  cache.truncate(a, 3);
  EXPECT_THAT(pool_picture(cache), HasSubstr("     0  2▃ ·\n"));
}

TEST(PoolPictureTest, EveryHeightOfAPage) {
  MemoryBackend backend;
  PagedKvCache cache(backend, kSmall, 20, 16);
  for (int tokens = 1; tokens <= 16; tokens++) append(cache, cache.create(), tokens);
  EXPECT_THAT(pool_picture(cache),
              HasSubstr("     0  A▁ B▁ C▁ D▂ E▂ F▃ G▃ H▄ I▄ J▅ K▅ L▆ M▆ N▇ O▇ P█ ·  ·  ·  ·\n"));
}

TEST(PoolPictureTest, LinesOfFreePagesAreCounted) {
  MemoryBackend backend;
  PagedKvCache cache(backend, kSmall, 110, 1);
  const SequenceId a = append(cache, cache.create(), 5);
  EXPECT_THAT(pool_picture(cache), HasSubstr("     0  A█ A█ A█ A█ A█ ·  ·  ·  ·  ·  ·  ·  ·  ·  ·"
                                             "  ·  ·  ·  ·  ·\n"
                                             "    20  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·"
                                             "  ·  ·  ·  ·  ·\n"
                                             "    40  ... 70 more free pages\n"
                                             "A  sequence 0"));
  const SequenceId b = append(cache, cache.create(), 96);
  cache.truncate(a, 0);
  append(cache, a, 1);
  cache.release(append(cache, cache.create(), 2));
  EXPECT_THAT(
      pool_picture(cache),
      HasSubstr("   100  B█ ·  ·  ·  ·  ·  ·  ·  ·  ·\nA  sequence 0: 1 token in page 0\n"));
  append(cache, a, 13);
  cache.release(b);
  EXPECT_THAT(pool_picture(cache), HasSubstr("    40  ... 60 more free pages\n"
                                             "   100  ·  A█ A█ A█ A█ A█ A█ A█ A█ A█\n"));
}

TEST(PoolPictureTest, NoLineIsWiderThan80Columns) {
  MemoryBackend backend;
  PagedKvCache cache(backend, kSmall, 100'000, 100);
  for (int i = 0; i < 60; i++) append(cache, cache.create(), 100 * (i * 7 + 1));
  append(cache, 3, 4'000'000);
  cache.fork(3);
  std::istringstream lines(pool_picture(cache));
  int widest = 0;
  for (std::string line; std::getline(lines, line);) {
    widest = std::max(widest, columns(line));
    EXPECT_LE(columns(line), 80) << line;
    EXPECT_THAT(line, Not(::testing::EndsWith(" ")));
  }
  EXPECT_GE(widest, 75) << "and the room is used";
  EXPECT_THAT(pool_picture(cache), HasSubstr("\n?  sequence 60: "));
}

TEST(PoolPictureTest, TheTableOfALongSequenceIsWrapped) {
  MemoryBackend backend;
  PagedKvCache cache(backend, kSmall, 64, 1);
  append(cache, cache.create(), 40);
  EXPECT_THAT(pool_picture(cache),
              HasSubstr("A  sequence 0: 40 tokens in pages 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 "
                        "16 17 18\n"
                        "       19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39\n" +
                        std::string(kLegend)));
}

TEST(PoolPictureTest, PagesHeldByNoSequenceAreNotFree) {
  MemoryBackend backend;
  PagedKvCache cache(backend, kSmall, 64, 8);
  const SequenceId a = append(cache, cache.create(), 20);
  cache.hold(0);
  cache.hold(1);
  EXPECT_THAT(pool_picture(cache), HasSubstr("     0  A█ A█ A▄ ·")) << "one sequence has it";
  const SequenceId b = append(cache, cache.create(), 26 * 8);
  cache.hold(28);
  cache.release(a);
  cache.release(b);
  EXPECT_THAT(pool_picture(cache), StartsWith("64 pages of 8 tokens: 3 in use, 0 of them shared, "
                                              "peak 29\n     0  #  #  ·  ·"));
  EXPECT_THAT(pool_picture(cache), HasSubstr("\n    20  ·  ·  ·  ·  ·  ·  ·  ·  #  ·"));
  EXPECT_THAT(pool_picture(cache),
              EndsWith(fmt::format("{}#  held, but in no sequence\n", kLegend)));
}

TEST(PoolPictureTest, ColoursOnlyWhenAskedFor) {
  MemoryBackend backend;
  PagedKvCache cache(backend, kSmall, 5, 8);
  const SequenceId a = append(cache, cache.create(), 12);
  append(cache, cache.share_prefix(a, 8), 4);
  EXPECT_THAT(pool_picture(cache), Not(HasSubstr("\x1b")));
  const std::string coloured = pool_picture(cache, true);
  EXPECT_THAT(coloured, HasSubstr("     0  \x1b[1m2█\x1b[0m \x1b[32mA▄\x1b[0m \x1b[33mB▄\x1b[0m "
                                  "\x1b[2m·\x1b[0m  \x1b[2m·\x1b[0m\n"));
  EXPECT_THAT(coloured, HasSubstr("\n\x1b[33mB\x1b[0m  sequence 1: 12 tokens in pages 0 2\n"));
}

}  // namespace
}  // namespace specdec
