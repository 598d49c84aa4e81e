// The decode loop allocates nothing: memory is taken when models and caches are made.
#include <new>

#include "tests/engine_fixture.h"
#include "tests/test_support.h"
#include "tests/unit/allocation_counter.h"

namespace specdec {
namespace {

class LlamaAllocationTest : public ::testing::TestWithParam<int> {};

TEST_P(LlamaAllocationTest, DecodingAllocatesNothing) {
  Engine engine("draft", make_cpu_backend(2), GetParam(), {}, 1, 300);
  Llama& llama = *engine.llama;
  const auto tokens = random_tokens(300, llama.vocab_size(), 1);
  const LogitsBuffer logits(llama, 6);
  const SequenceId sequence = llama.create();
  llama.forward(Segment{sequence, std::span(tokens).first(20), 0}, {});

  const std::size_t before = allocations();
  TokenId chosen = 0;
  for (std::size_t at = 20; at + 6 <= 290; at += 2) {  // speculation: six rows, four given back
    llama.forward(Segment{sequence, std::span(tokens).subspan(at, 6), 6}, logits.rows(0, 6));
    engine.backend->argmax(logits.rows(5, 1), std::span(&chosen, 1));
    llama.truncate(sequence, static_cast<int>(at) + 2);
  }
  EXPECT_EQ(allocations() - before, 0u);
  ::operator delete(::operator new(1));  // the counter counts
  EXPECT_GT(allocations(), before);
}

INSTANTIATE_TEST_SUITE_P(PageSizes, LlamaAllocationTest, ::testing::Values(kNoPages, 1, 3, 16));

}  // namespace
}  // namespace specdec
