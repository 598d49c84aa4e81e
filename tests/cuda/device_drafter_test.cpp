// The device drafts step after step without the host. Tokens, distributions and caches equal those
// of a host that feeds every token itself, for any mix of requests.
#include "common/speculation/device_drafter.h"

#include "common/speculation/device_draft_sampler.h"
#include "kernels/cuda_backend.h"
#include "stages/04_greedy_speculation/greedy_drafter.h"
#include "tests/engine_fixture.h"

namespace specdec {
namespace {

constexpr int kRequests = 3, kPositions = 64;

struct Wanted {
  int spec_length;
  Sampling sampling;
};

class DeviceDrafterTest : public ::testing::Test {
 protected:
  // A drafter, its model, and a sequence for each request.
  struct Side {
    Side(const LlamaModel& model, bool on_device, bool samples)
        : draft(model, 16, kPositions, kRequests),
          drafts(make_drafts(kRequests, Capacity::of_chain(8),
                             samples ? draft.llama.vocab_size() : 0,
                             samples ? &model.backend() : nullptr)) {
      const int V = draft.llama.vocab_size();
      if (samples) {
        drafter = std::make_unique<ModelDrafter>(
            draft.llama,
            std::make_unique<DeviceDraftSampler>(model.backend(), V, kPositions, kRequests),
            kPositions, kRequests);
      } else {
        drafter = std::make_unique<GreedyDrafter>(draft.llama, kPositions);
      }
      if (on_device) {
        drafter = std::make_unique<DeviceDrafter>(draft.llama, std::move(drafter), kPositions,
                                                  kRequests, samples ? V : 0);
      }
      for (int r = 0; r < kRequests; r++) sequences.push_back(drafter->create());
    }

    CachedLlama draft;
    std::vector<Drafts> drafts;
    std::unique_ptr<Drafter> drafter;
    std::vector<SequenceId> sequences;
  };

  DeviceDrafterTest() {
    for (int r = 0; r < kRequests; r++) {
      contexts_.push_back(random_tokens(3 + 5 * r, 4096, unsigned(r) + 1));
    }
  }

  void draft(Side& side, std::span<const Wanted> wanted) {
    std::vector<DraftRequest> requests;
    for (std::size_t r = 0; r < wanted.size(); r++) {
      requests.push_back({side.sequences[r], contexts_[r], wanted[r].spec_length,
                          wanted[r].sampling, &side.drafts[r]});
    }
    side.drafter->draft(requests);
  }

  std::vector<double> probs(const Side& side, std::size_t r, std::size_t i) {
    std::vector<double> probs(4096);
    const double* on_device = side.drafts[r].device_probs()[i];
    if (on_device == nullptr) return {};
    backend_->download(on_device, probs.data(), probs.size() * sizeof(double));
    return probs;
  }

  // Two rounds, the second after one draft was accepted.
  void expect_equal(std::span<const Wanted> wanted, bool samples) {
    Side host(model_, false, samples), device(model_, true, samples);
    for (int round = 0; round < 2; round++) {
      draft(host, wanted);
      draft(device, wanted);
      // For greedy drafts, the host processes one request after the other.
      if (samples || wanted.size() == 1) {
        EXPECT_EQ(device.drafter->forwards(), host.drafter->forwards());
      }
      for (std::size_t r = 0; r < wanted.size(); r++) {
        SCOPED_TRACE(testing::Message() << "round " << round << ", request " << r);
        const Drafts& want = host.drafts[r];
        ASSERT_EQ(want.size(), wanted[r].spec_length);
        ASSERT_TRUE(std::ranges::equal(device.drafts[r].tokens(), want.tokens()));
        for (std::size_t i = 0; samples && i < want.tokens().size(); i++) {
          EXPECT_EQ(probs(device, r, i), probs(host, r, i));
        }
        for (Side* side : {&host, &device}) {
          side->drafter->truncate(side->sequences[r], static_cast<int>(contexts_[r].size()) + 1);
        }
        EXPECT_EQ(device.drafter->length(device.sequences[r]),
                  host.drafter->length(host.sequences[r]));
        if (want.size() > 0) contexts_[r].push_back(want.token(0));
        contexts_[r].push_back(7);
      }
    }
  }

  std::unique_ptr<Backend> backend_ = make_emulated_backend();
  LlamaModel model_{Checkpoint(golden_model("draft")), *backend_};
  std::vector<std::vector<TokenId>> contexts_;
  std::vector<Dice> dice_{Dice(1), Dice(2), Dice(3)};
};

TEST_F(DeviceDrafterTest, DraftsTheSameGreedily) {
  expect_equal(std::vector<Wanted>{{4, {}}}, false);
  expect_equal(std::vector<Wanted>{{2, {}}, {5, {}}, {3, {}}}, false);
}

TEST_F(DeviceDrafterTest, DraftsTheSameBySampling) {
  const Sampling warm{{.temperature = 0.9, .top_k = 50, .top_p = 0.95}, &dice_[0]};
  const Sampling race{{.temperature = 1.3}, &dice_[1], true};
  const Sampling greedy{{.temperature = 0}, &dice_[2]};
  expect_equal(std::vector<Wanted>{{3, warm}, {5, race}, {1, greedy}}, true);
  expect_equal(std::vector<Wanted>{{0, warm}, {2, greedy}, {2, race}}, true);
}

// A penalty's history includes the earlier drafts, so the host runs the loop.
TEST_F(DeviceDrafterTest, LeavesPenaltiesToTheHost) {
  const Sampling warm{{.temperature = 0.9}, &dice_[0]};
  const Sampling penalty{{.temperature = 0.9, .repetition_penalty = 1.5}, &dice_[1]};
  expect_equal(std::vector<Wanted>{{3, warm}, {4, penalty}}, true);
}

TEST_F(DeviceDrafterTest, SaysThatLogitsAreNotNumbers) {
  Side side(model_, true, false);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  backend_->upload(&nan, model_.final_norm().data(), sizeof nan);
  EXPECT_THROW(draft(side, std::vector<Wanted>{{3, {}}}), Error);
}

}  // namespace
}  // namespace specdec
