// Trees of drafts in the engine on an emulated device (tests/unit/common/llama_tree_test.cpp is the
// same for the CPU), and the device calls for keeping a path.
#include "kernels/cuda_backend.h"
#include "kernels/emulation/cuda_on_cpu.h"
#include "tests/tree_fixture.h"

namespace specdec {
namespace {

std::unique_ptr<Engine> engine(const std::string& model, int page_size, int max_pass_rows = 256,
                               KvType kv_type = KvType::kF32) {
  return std::make_unique<Engine>(model, make_emulated_backend(), page_size,
                                  LlamaOptions{.max_pass_rows = max_pass_rows}, 4, 320,
                                  WeightFormat::kStored, kv_type);
}

TEST(DeviceTree, NodesSayWhatTheirPathsSay) {
  std::mt19937 random(3);
  struct Case {
    int page_size, max_pass_rows, context;
  };
  for (const auto& [model, kv_type] : {std::pair<std::string, KvType>("untied", KvType::kF32),
                                       {"one_kv_head", KvType::kF32},
                                       {"untied", KvType::kBF16}}) {
    const auto reference = engine(model, kNoPages, 256, kv_type);
    for (const auto& [page_size, max_pass_rows, length] :
         {Case{kNoPages, 256, 60}, {1, 5, 0}, {3, 256, 124}}) {
      const auto e = engine(model, page_size, max_pass_rows, kv_type);
      const auto context = random_tokens(length, e->llama->vocab_size(), unsigned(length));
      expect_tree_equals_paths(*e, *reference, context, 10, 10, random);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// Trees of the same size share one graph, whatever their shape and position.
TEST(DeviceTree, GraphsTakeAnyShape) {
  std::mt19937 random(4);
  const auto e = engine("untied", 3), reference = engine("untied", kNoPages);
  const auto context = random_tokens(20, e->llama->vocab_size(), 1);
  for (int round = 0; round < 12; round++) {
    expect_tree_equals_paths(*e, *reference, context, 4, 4, random);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(DeviceTree, KeepIsOneLaunchALayer) {
  const auto e = engine("untied", 3);
  const SequenceId sequence = e->llama->create();
  const auto tokens = random_tokens(9, e->llama->vocab_size(), 1);
  const std::vector<int> parents = {-1, -1, 0, 0, 1, 2, 3, 4, 7};
  const LogitsBuffer logits(*e->llama, 9);
  e->llama->forward(Segment{sequence, tokens, 9, parents}, logits.rows(0, 9));
  e->llama->backend().wait();  // a pass may be launched only now
  const emulation::Traffic before = emulation::traffic();
  e->llama->keep(sequence, 0, std::vector<int>{1, 4, 7, 8});
  const emulation::Traffic used = emulation::traffic() - before;
  EXPECT_EQ(used.launches, std::size_t(e->model.config().n_layers));
  EXPECT_EQ(used.uploads, 0u);
  EXPECT_EQ(used.downloads, 0u);
  EXPECT_EQ(used.waits, 0u);
}

}  // namespace
}  // namespace specdec
