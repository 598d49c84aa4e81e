// What is queued, what a recorder keeps, and when it forgets. device_loop_test, and all tests of
// the engine on the emulation, check that its graphs compute the same as single launches.
#include <cstring>
#include <limits>
#include <optional>

#include "kernels/cuda_backend.h"
#include "kernels/emulation/cuda_on_cpu.h"
#include "tests/engine_fixture.h"

namespace specdec {
namespace {

class GraphRecorderTest : public ::testing::Test {
 protected:
  // Records x = value, a given number of times.
  void ask(std::int64_t shape, float value, int times = 1) {
    recorder_->run({shape}, [=, this] {
      for (int i = 0; i < times; i++) backend_->fill(matrix(x_, 1, 4), value);
    });
  }
  // The calls that this makes: launches, one by one or in a graph.
  emulation::Traffic fill(std::int64_t shape, float value, int times = 1) {
    const emulation::Traffic before = emulation::traffic();
    ask(shape, value, times);
    backend_->wait();
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

// The value is the recorded one, because the shape does not include it.
TEST_F(GraphRecorderTest, AShapeNamesAllThatOperationsDependOn) {
  fill(1, 5);
  fill(1, 6);
  EXPECT_EQ(filled(), 6);
  fill(1, 7);
  EXPECT_EQ(filled(), 6);
  fill(2, 7);
  EXPECT_EQ(filled(), 7);
}

TEST_F(GraphRecorderTest, AGraphReachesFromWaitToWait) {
  DeviceArray<float> copied(*backend_, 4);
  const std::vector<float> sent = {1, 2, 3, 4};
  for (int again = 0; again < 3; again++) {
    SCOPED_TRACE(again);
    const emulation::Traffic before = emulation::traffic();
    ask(1, 5);
    backend_->upload(sent.data(), copied.data(), sizeof(float) * 4);
    ask(2, 6);
    emulation::Traffic asked = emulation::traffic() - before;
    EXPECT_EQ(asked.launches + asked.graph_launches + asked.uploads, 0u) << "so far";
    float first = 0;
    backend_->download(x_.data(), &first, sizeof first);
    EXPECT_EQ(first, 6);
    asked = emulation::traffic() - before;
    EXPECT_EQ(asked.launches, again == 0 ? 2u : 0u);
    EXPECT_EQ(asked.graph_launches, again == 0 ? 0u : 1u);
    EXPECT_EQ(asked.uploads + asked.downloads, again == 0 ? 2u : 0u) << "then they are nodes";
    EXPECT_EQ(asked.bytes_to_device, sizeof(float) * 4);
    EXPECT_EQ(asked.waits, 1u);
    EXPECT_EQ(to_host(*backend_, matrix(copied, 1, 4)), sent);
  }
}

// All parcels since the last wait are one copy, which is no node. Each has memory of its own until
// a result comes back.
TEST_F(GraphRecorderTest, ParcelsGoBeforeAllElse) {
  constexpr int kParcels = 3, kBytes = 4 * sizeof(float);
  DeviceArray<float> copied(*backend_, std::size_t{4} * kParcels);
  for (int again = 0; again < 3; again++) {
    SCOPED_TRACE(again);
    const emulation::Traffic before = emulation::traffic();
    std::vector<float> sent;
    for (int i = 0; i < kParcels; i++) {
      const Parcel parcel = backend_->parcel(kBytes);
      const std::vector<float> numbers(4, static_cast<float>(10 * again + i));
      std::memcpy(parcel.host, numbers.data(), kBytes);
      backend_->send(kBytes);
      sent.insert(sent.end(), numbers.begin(), numbers.end());
      float* to = copied.data() + 4 * i;
      recorder_->run({i, reinterpret_cast<std::intptr_t>(parcel.device)},
                     [=, this] { backend_->copy(parcel.device, to, kBytes); });
    }
    emulation::Traffic asked = emulation::traffic() - before;
    EXPECT_EQ(asked.graph_launches + asked.uploads, 0u) << "so far";
    backend_->wait();
    asked = emulation::traffic() - before;
    EXPECT_EQ(asked.uploads, 1u);
    EXPECT_EQ(asked.graph_launches, again == 0 ? 0u : 1u);
    EXPECT_EQ(to_host(*backend_, matrix(copied, 1, 4 * kParcels)), sent);
  }
}

// More than the memory for parcels holds: the host waits, and what was asked for is done.
TEST_F(GraphRecorderTest, ParcelsNeedNoMoreMemoryThanThereIs) {
  constexpr std::size_t kBytes = 100'000;
  DeviceArray<std::byte> copied(*backend_, 8 * kBytes);
  std::vector<std::byte> sent;
  const emulation::Traffic before = emulation::traffic();
  for (std::size_t i = 0; i < 8; i++) {
    const Parcel parcel = backend_->parcel(kBytes);
    std::memset(parcel.host, static_cast<int>(i), kBytes);
    backend_->send(kBytes);
    sent.insert(sent.end(), kBytes, static_cast<std::byte>(i));
    std::byte* to = copied.data() + i * kBytes;
    recorder_->run({100 + static_cast<std::int64_t>(i)},
                   [=, this] { backend_->copy(parcel.device, to, kBytes); });
  }
  std::vector<std::byte> received(sent.size());
  backend_->download(copied.data(), received.data(), received.size());
  EXPECT_EQ(received, sent);
  EXPECT_GT((emulation::traffic() - before).waits, 1u);
}

// Known passes are launched as graphs even if the operations around them are new.
TEST_F(GraphRecorderTest, KnownPassesInANewOrder) {
  for (int again = 0; again < 2; again++) {
    fill(1, 5);
    fill(2, 6);
  }
  const emulation::Traffic before = emulation::traffic();
  ask(2, 6);
  ask(1, 5);
  EXPECT_EQ(filled(), 5);
  EXPECT_EQ((emulation::traffic() - before).graph_launches, 2u);
}

// A direct operation comes after the operations that were queued before it.
TEST_F(GraphRecorderTest, TheOrderStays) {
  ask(1, 5);
  backend_->fill(matrix(x_, 1, 4), 7);
  EXPECT_EQ(filled(), 7);
  ask(1, 5);
  EXPECT_EQ(filled(), 5);
  ask(1, 8);  // recorded as 5
  backend_->copy(x_.data(), x_.data() + 2, 2 * sizeof(float));
  EXPECT_EQ(to_host(*backend_, matrix(x_, 1, 4)), std::vector<float>(4, 5));
}

TEST_F(GraphRecorderTest, MemoryIsFreedAfterWhatWasAskedFor) {
  auto y = std::make_unique<DeviceArray<float>>(*backend_, 4);
  recorder_->run({1}, [&, data = y->data()] {
    backend_->fill({data, 1, 4, 4}, 3);
    backend_->copy(data, x_.data(), 4 * sizeof(float));
  });
  y.reset();
  EXPECT_EQ(filled(), 3);
}

TEST_F(GraphRecorderTest, KeepsTheLatest512) {
  const std::size_t before = emulation::traffic().graphs;
  for (int shape = 0; shape < 600; shape++) {
    fill(shape, 1);
    fill(shape, 1);
    EXPECT_LE(emulation::traffic().graphs - before, 512u);
    EXPECT_EQ(fill(0, 2).graph_launches, 1u) << "used all the time, so it is never the oldest";
  }
  EXPECT_EQ(fill(599, 1).graph_launches, 1u);
  EXPECT_EQ(fill(1, 1).launches, 1u) << "forgotten";
  recorder_.reset();
  EXPECT_EQ(emulation::traffic().graphs, before);
}

// Known passes between copies that are new each time: these orders are forgotten, too.
TEST_F(GraphRecorderTest, OrdersAreForgotten) {
  const std::vector<float> sent(600);
  DeviceArray<float> copied(*backend_, sent.size());
  const auto ask_around_a_copy = [&](std::size_t count) {
    const emulation::Traffic before = emulation::traffic();
    ask(1, 5);
    backend_->upload(sent.data(), copied.data(), count * sizeof(float));
    ask(2, 6);
    backend_->wait();
    return emulation::traffic() - before;
  };
  for (int again = 0; again < 2; again++) ask_around_a_copy(1);
  for (std::size_t count = 2; count <= sent.size(); count++) {
    EXPECT_EQ(ask_around_a_copy(count).graph_launches, 2u) << "of both passes";
  }
  EXPECT_EQ(ask_around_a_copy(2).graph_launches, 2u) << "forgotten";
  EXPECT_EQ(ask_around_a_copy(sent.size()).graph_launches, 1u);
}

// Nodes take memory, whatever the number of graphs.
TEST_F(GraphRecorderTest, KeepsAtMost32768Nodes) {
  constexpr int kTimes = 3000;
  const std::size_t before = emulation::traffic().graph_nodes;
  for (int shape = 0; shape < 14; shape++) {
    fill(shape, 1, kTimes);
    EXPECT_EQ(fill(shape, 1, kTimes).graph_launches, 1u);
    EXPECT_EQ(emulation::traffic().graph_nodes - before,
              std::size_t(std::min(shape + 1, 32768 / kTimes) * kTimes));
  }
  EXPECT_EQ(fill(13, 1, kTimes).graph_launches, 1u);
  EXPECT_EQ(fill(1, 1).launches, 1u) << "forgotten";
}

// Two samplers, one after the other, have the same memory except for one array.
TEST_F(GraphRecorderTest, SamplersShareNoGraph) {
  const std::vector<float> logits = {0, 1, 3, 2};
  backend_->upload(logits.data(), x_.data(), sizeof(float) * 4);
  for (int rows = 1; rows < 12; rows++) {
    const auto sampler = backend_->make_sampler({.vocab_size = 4, .rows = rows % 3 + 1});
    const Choice choice{.sampling = {.temperature = 1}, .by = DrawBy::kLargest};
    for (int again = 0; again < 3; again++) {
      std::int32_t token = -1;
      sampler->choose(matrix(x_, 1, 4), std::span(&choice, 1), std::span(&token, 1));
      EXPECT_EQ(token, 2);
    }
  }
}

// Graphs of attention point to the backend's scratch memory.
TEST_F(GraphRecorderTest, ForgetsAllWhenScratchMoves) {
  fill(1, 5);
  fill(1, 5);
  backend_->reserve_attention(4, {.n_heads = 2, .n_kv_heads = 1, .head_dim = 64}, 4096);
  EXPECT_EQ(fill(1, 6).launches, 1u);
  EXPECT_EQ(filled(), 6);
}

// The next operations run directly again.
TEST_F(GraphRecorderTest, AFailureEndsTheRecording) {
  fill(1, 5);
  recorder_->run({1}, [] { throw Error("no"); });
  EXPECT_THROW(backend_->wait(), Error);
  EXPECT_EQ(fill(3, 8).launches, 1u);
  EXPECT_EQ(filled(), 8);
  fill(1, 9);
  EXPECT_EQ(filled(), 9);
}

// Memory is freed by destructors, which may not throw. The next wait says what went wrong; so it
// does when an engine goes.
TEST_F(GraphRecorderTest, AFailureWaitsWhileMemoryIsFreed) {
  std::optional<DeviceArray<float>> freed(std::in_place, *backend_, 4);
  recorder_->run({1}, [] { throw Error("no"); });
  freed.reset();
  EXPECT_THROW(backend_->wait(), Error);
  recorder_->run({1}, [] { throw Error("no"); });
  recorder_.reset();
  EXPECT_THROW(backend_->wait(), Error);
  recorder_ = backend_->make_recorder();
  fill(1, 5);
  EXPECT_EQ(filled(), 5);
}

// In the same program as one that records.
TEST_F(GraphRecorderTest, AnEngineMayWantNone) {
  setenv("SPECDEC_CUDA_GRAPHS", "0", 1);
  EXPECT_EQ(backend_->make_recorder(), nullptr);
  unsetenv("SPECDEC_CUDA_GRAPHS");
  EXPECT_NE(backend_->make_recorder(), nullptr);
}

// A Llama's first passes are recorded; then another one on the same backend allocates more scratch.
// The first one's logits keep their bits.
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
