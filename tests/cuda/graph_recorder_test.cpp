// What a recorder keeps, and when it forgets; that its graphs compute what single launches compute
// is the business of device_loop_test and of all tests of the engine on the emulation.
#include <limits>

#include "kernels/cuda_backend.h"
#include "kernels/emulation/cuda_on_cpu.h"
#include "tests/engine_fixture.h"

namespace specdec {
namespace {

class GraphRecorderTest : public ::testing::Test {
 protected:
  // What a call of run() asks the device for: one launch of x = value, by itself or in a graph.
  emulation::Traffic fill(std::int64_t shape, float value) {
    const emulation::Traffic before = emulation::traffic();
    recorder_->run({shape}, [&] { backend_->fill(matrix(x_, 1, 4), value); });
    return emulation::traffic() - before;
  }
  float filled() { return to_host(*backend_, matrix(x_, 1, 4)).front(); }

  std::unique_ptr<Backend> backend_ = make_emulated_backend();
  DeviceArray<float> x_{*backend_, 4};
  std::unique_ptr<Recorder> recorder_ = backend_->make_recorder();
};

TEST_F(GraphRecorderTest, RecordsWhatItSeesTwice) {
  EXPECT_EQ(fill(1, 5).launches, 1u);
  EXPECT_EQ(filled(), 5);
  for (int again = 0; again < 3; again++) {
    const emulation::Traffic run = fill(1, 5);
    EXPECT_EQ(run.launches, 0u);
    EXPECT_EQ(run.graph_launches, 1u);
    EXPECT_EQ(run.graphs, again == 0 ? 1u : 0u);
    EXPECT_EQ(filled(), 5);
  }
}

// The value is of the recording, since the shape does not name it.
TEST_F(GraphRecorderTest, AShapeNamesAllThatOperationsDependOn) {
  fill(1, 5);
  fill(1, 6);
  EXPECT_EQ(filled(), 6);
  fill(1, 7);
  EXPECT_EQ(filled(), 6);
  fill(2, 7);
  EXPECT_EQ(filled(), 7);
}

TEST_F(GraphRecorderTest, KeepsTheLatest64) {
  const std::size_t before = emulation::traffic().graphs;
  for (int shape = 0; shape < 100; shape++) {
    fill(shape, 1);
    fill(shape, 1);
    EXPECT_LE(emulation::traffic().graphs - before, 64u);
    EXPECT_EQ(fill(0, 2).graph_launches, 1u) << "used all the time, so it is never the oldest";
  }
  EXPECT_EQ(fill(99, 1).graph_launches, 1u);
  EXPECT_EQ(fill(1, 1).launches, 1u) << "forgotten";
  recorder_.reset();
  EXPECT_EQ(emulation::traffic().graphs, before);
}

// Graphs of attention point to the backend's scratch memory.
TEST_F(GraphRecorderTest, ForgetsAllWhenScratchMoves) {
  fill(1, 5);
  fill(1, 5);
  backend_->reserve_attention(4, {.n_heads = 2, .n_kv_heads = 1, .head_dim = 64}, 4096);
  EXPECT_EQ(fill(1, 6).launches, 1u);
  EXPECT_EQ(filled(), 6);
}

// The next operations are done again.
TEST_F(GraphRecorderTest, AFailureEndsTheRecording) {
  fill(1, 5);
  EXPECT_THROW(recorder_->run({1}, [] { throw Error("no"); }), Error);
  EXPECT_EQ(fill(3, 8).launches, 1u);
  EXPECT_EQ(filled(), 8);
  fill(1, 9);
  EXPECT_EQ(filled(), 9);
}

// A Llama whose first passes were recorded while another one, on the same backend, took more
// scratch: its logits keep their bits.
TEST_F(GraphRecorderTest, TwoLlamasShareABackend) {
  const LlamaModel model{Checkpoint(golden_model("draft")), *backend_};
  const auto tokens = random_tokens(200, 4096, 3);
  CachedLlama first(model, 16, 256);
  const LogitsBuffer logits(first.llama, 1);
  const SequenceId sequence = first.llama.create();
  const auto step = [&](int at) {
    first.llama.forward(Segment{sequence, std::span(tokens).subspan(std::size_t(at), 1), 1},
                        logits.rows(0, 1));
    return to_host(*backend_, logits.rows(0, 1));
  };
  first.llama.forward(Segment{sequence, std::span(tokens).first(150), 0}, {});
  for (int at = 150; at < 153; at++) step(at);
  CachedLlama second(model, 16, 2048, 4);  // attention over more
  for (int at = 153; at < 156; at++) {
    const auto got = step(at);
    CachedLlama alone(model, 16, 256);
    const SequenceId all = alone.llama.create();
    const LogitsBuffer want(alone.llama, 1);
    alone.llama.forward(Segment{all, std::span(tokens).first(std::size_t(at) + 1), 1},
                        want.rows(0, 1));
    EXPECT_TRUE(equal_bits(got, to_host(*backend_, want.rows(0, 1)))) << at;
  }
}

}  // namespace
}  // namespace specdec
