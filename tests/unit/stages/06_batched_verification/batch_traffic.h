#pragma once
#include <map>
#include <random>
#include <utility>

#include <malloc.h>

#include "tests/unit/stages/06_batched_verification/batch_engine_fixture.h"

namespace specdec {

// The bytes that are allocated now. 0 if a sanitizer replaces malloc.
inline std::size_t live_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Adds and cancels requests at random and takes their results. About as many requests wait as run.
class Traffic {
 public:
  using MakeRequest = std::function<BatchRequest(std::mt19937& random)>;
  // With the request that it was of.
  using OnResult = std::function<void(const BatchRequest& request, const RequestResult& result)>;

  Traffic(BatchEngine& engine, MakeRequest make_request, OnResult on_result = {})
      : engine_(engine), make_request_(std::move(make_request)), on_result_(std::move(on_result)) {}

  void step() {
    if (open_.size() < 12 && random_() % 3 != 0) add();
    if (!open_.empty() && random_() % 40 == 0) {
      engine_.cancel(std::next(open_.begin(), pick(open_.size()))->first);
    }
    for (const RequestId id : engine_.step().finished) take(id);
  }
  void drain() {
    while (!engine_.idle()) {
      for (const RequestId id : engine_.step().finished) take(id);
    }
    engine_.forget_prefixes();
  }
  std::int64_t taken() const { return taken_; }

 private:
  struct Open {
    BatchRequest request;
    std::size_t heard = 0;  // tokens
    int finals = 0;
  };

  std::ptrdiff_t pick(std::size_t n) { return static_cast<std::ptrdiff_t>(random_() % n); }

  void add() {
    const BatchRequest request = make_request_(random_);
    const RequestId id = engine_.add_request(request, [this](const Delivery& delivery) {
      Open& open = open_.at(delivery.id);
      open.heard += delivery.tokens.size();
      open.finals += delivery.finished ? 1 : 0;
    });
    EXPECT_EQ(id, ++last_id_) << "an id is never used again";
    open_.emplace(id, Open{request});
  }

  void take(RequestId id) {
    const RequestResult result = engine_.take_result(id);
    const Open open = std::move(open_.extract(id).mapped());
    EXPECT_EQ(open.heard, result.tokens.size());
    EXPECT_EQ(open.finals, 1);
    EXPECT_EQ(std::ssize(result.tokens), result.stats.run.emitted);
    EXPECT_LE(std::ssize(result.tokens), open.request.generation.max_new_tokens);
    EXPECT_NE(result.finish_reason, FinishReason::kError) << result.error;
    taken_++;
    if (on_result_) on_result_(open.request, result);
  }

  BatchEngine& engine_;
  MakeRequest make_request_;
  OnResult on_result_;
  std::mt19937 random_{5};
  std::map<RequestId, Open> open_;
  RequestId last_id_ = -1;
  std::int64_t taken_ = 0;
};

inline BatchRequest some_request(std::mt19937& random) {
  const auto pick = [&](unsigned low, unsigned high) {
    return static_cast<int>(low + random() % (high - low + 1));
  };
  return sampled_request(some_prompt(pick(1, 20), pick(0, 5)), pick(1, 20), pick(0, 4), random());
}

}  // namespace specdec
