#include "stages/10_beam_search/continuations.h"

#include <limits>

#include <gtest/gtest.h>

#include "common/sampling/bad_logits.h"
#include "kernels/cpu/cpu_backend.h"

namespace specdec {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

class BestContinuations : public testing::Test {
 protected:
  // logits: [rows, V]; beam i is extended by row i.
  std::vector<std::pair<int, TokenId>> best(const std::vector<std::vector<float>>& logits,
                                            const std::vector<double>& scores, int count) {
    const auto V = static_cast<int>(logits[0].size());
    const DeviceArray<float> on_device(*backend_, logits.size() * logits[0].size());
    const DeviceRows rows = matrix(on_device, static_cast<int>(logits.size()), V);
    std::vector<BeamRow> beams;
    for (int i = 0; i < rows.rows; i++) {
      backend_->upload(logits[i].data(), rows.row(i), V * sizeof(float));
      beams.push_back({i, scores[i]});
    }
    std::vector<std::pair<int, TokenId>> found;
    for (const Continuation& next : best_continuations(*backend_, rows, beams, count)) {
      found.emplace_back(next.beam, next.token);
    }
    return found;
  }

  std::unique_ptr<Backend> backend_ = make_plain_backend();
};

using Found = std::vector<std::pair<int, TokenId>>;

TEST_F(BestContinuations, AmongEqualsTheLowerBeamComesFirstAndThenTheLowerId) {
  const std::vector<float> flat(6, 0.5F);
  EXPECT_EQ(best({flat, flat, flat}, {-1, -1, -1}, 8),
            (Found{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}, {1, 0}, {1, 1}}));
  EXPECT_EQ(best({flat, flat}, {-2, -1}, 7),
            (Found{{1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}, {0, 0}}));
  EXPECT_EQ(best({{0, 1, 0, 1, 1}}, {0}, 4), (Found{{0, 1}, {0, 3}, {0, 4}, {0, 0}}));
}

TEST_F(BestContinuations, AnIdWithoutALogitIsNoToken) {
  EXPECT_EQ(best({{kNone, 1, kNone}, {0, kNone, kNone}}, {0, 0}, 5), (Found{{0, 1}, {1, 0}}));
}

TEST_F(BestContinuations, LogitsWithoutADistributionAreRefused) {
  EXPECT_THROW(best({{kNone, kNone}}, {0}, 1), BadLogits);
  EXPECT_THROW(best({{0, std::numeric_limits<float>::quiet_NaN()}}, {0}, 1), BadLogits);
}

}  // namespace
}  // namespace specdec
