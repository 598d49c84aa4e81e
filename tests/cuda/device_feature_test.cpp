// A feature layer on an emulated device: each draft of a chain goes to the next step without the
// host. The drafts, their distributions and the layer's cache are those of a host that feeds every
// token itself.
#include "common/speculation/device_draft_sampler.h"
#include "kernels/cuda_backend.h"
#include "stages/09_self_drafting/parallel_layer.h"
#include "stages/programs/sampling/speculation_options.h"
#include "tests/cuda/calls.h"
#include "tests/engine_fixture.h"
#include "tests/fresh_cache.h"
#include "tests/unit/stages/09_self_drafting/feature_folder.h"

namespace specdec {
namespace {

constexpr int kRequests = 2, kPositions = 64, K = 4;

std::unique_ptr<FeatureModel> load_layer(const LlamaModel& target, const FeatureFolder& folder) {
  FeatureLayer layer = folder.load(target.backend());
  Capacity room = Capacity::of_chain(K);
  room.requests = kRequests;
  auto cache = CachedLlama::make(*layer.block, 16, kPositions, kRequests);
  return std::make_unique<FeatureModel>(target, std::move(layer), std::move(cache),
                                        target.config().vocab_size, room);
}

// A target whose layer drafts on the device, or with the host between two steps; one token after
// another, or all in one pass.
struct Side {
  Side(const LlamaModel& model, const FeatureFolder& folder, bool on_device)
      : target(model, 16, kPositions, kRequests),
        held(load_layer(model, folder)),
        layer(held.get()),
        rows(target.llama, layer->layer().places, kRequests, kPositions,
             TargetRows::Of::kAllTokens),
        drafts(make_drafts(kRequests, Capacity::of_chain(K), model.config().vocab_size,
                           &model.backend())) {
    layer->read(rows);
    if (layer->layer().mask_feature.size() > 0) {
      one_pass = std::make_unique<ParallelLayer>(std::move(held), K, kRequests, kPositions);
    }
    LanguageModel& says = one_pass ? static_cast<LanguageModel&>(*one_pass) : *layer;
    const int V = model.config().vocab_size;
    auto drafter =
        on_device ? sampled_drafting(KeepProbs::kBesideLogits)
                        .make(says, {.requests = kRequests, .context = kPositions}, V)
                  : std::make_unique<ModelDrafter>(says,
                                                   std::make_unique<DeviceDraftSampler>(
                                                       model.backend(), V, kPositions, kRequests),
                                                   kPositions, kRequests);
    RoundModel& round = one_pass ? static_cast<RoundModel&>(*one_pass) : *layer;
    self = std::make_unique<SelfDrafter>(round, std::move(drafter));
    for (int r = 0; r < kRequests; r++) sequences.push_back({rows.create(), self->create()});
  }

  // Drafts after contexts whose tokens but the last have been through the target.
  Calls draft(const std::vector<std::vector<TokenId>>& contexts, const Sampling& sampling) {
    std::vector<DraftRequest> requests;
    for (int r = 0; r < kRequests; r++) {
      const auto [of_target, own] = sequences[std::size_t(r)];
      const std::span<const TokenId> context = contexts[std::size_t(r)];
      const auto cached = context.first(context.size() - 1);
      rows.forward(Segment{of_target, cached.subspan(std::size_t(rows.length(of_target))), 0}, {});
      requests.push_back({own, context, K - r, sampling, &drafts[std::size_t(r)], of_target});
    }
    const emulation::Traffic before = emulation::traffic();
    self->draft(requests);
    return calls(emulation::traffic() - before);
  }

  CachedLlama target;
  std::unique_ptr<FeatureModel> held;  // null: in one_pass
  FeatureModel* layer;
  std::unique_ptr<ParallelLayer> one_pass;
  TargetRows rows;
  std::vector<Drafts> drafts;
  std::unique_ptr<SelfDrafter> self;
  std::vector<std::pair<SequenceId, SequenceId>> sequences;  // of the target, of the layer
};

class DeviceFeatureTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::vector<double> probs(const Drafts& drafts, int i) {
    const double* on_device = drafts.device_probs()[std::size_t(i)];
    if (on_device == nullptr) return {};  // the likeliest token
    std::vector<double> probs(std::size_t(model_.config().vocab_size));
    backend_->download(on_device, probs.data(), probs.size() * sizeof(double));
    return probs;
  }
  void expect_equal(const Side& got, const Side& want) {
    for (std::size_t r = 0; r < kRequests; r++) {
      const Drafts &a = got.drafts[r], &b = want.drafts[r];
      ASSERT_EQ(b.size(), K - int(r));
      EXPECT_TRUE(std::ranges::equal(a.tokens(), b.tokens()));
      for (int i = 0; i < b.size(); i++) EXPECT_EQ(probs(a, i), probs(b, i)) << "draft " << i;
      EXPECT_TRUE(equal_bits(cached_values(got.layer->cache(), got.sequences[r].second),
                             cached_values(want.layer->cache(), want.sequences[r].second)));
    }
  }

  std::unique_ptr<Backend> backend_ = make_emulated_backend();
  LlamaModel model_{Checkpoint(golden_model("draft")), *backend_};
  FeatureFolder folder_{GetParam(), model_.config()};
  Dice dice_{3};
};

TEST_P(DeviceFeatureTest, DraftsWithoutTheHost) {
  std::vector<std::vector<TokenId>> contexts = {random_tokens(9, 4096, 1),
                                                random_tokens(5, 4096, 2)};
  for (const double temperature : {0.0, 0.9}) {
    const Sampling sampling{{.temperature = temperature}, &dice_};
    Side device(model_, folder_, true), host(model_, folder_, false);
    for (int round = 0; round < 2; round++) {
      SCOPED_TRACE(testing::Message() << "temperature " << temperature << ", round " << round);
      const Calls of_device = device.draft(contexts, sampling),
                  of_host = host.draft(contexts, sampling);
      expect_equal(device, host);
      EXPECT_EQ(of_device.downloads, 1u) << "all tokens";
      EXPECT_EQ(of_device.waits, 1u);
      EXPECT_GE(of_host.waits, std::size_t(K));
      for (std::size_t r = 0; r < kRequests; r++) {  // one draft is accepted, and a correction
        const auto own = int(contexts[r].size()) + 1;
        for (Side* side : {&device, &host}) side->self->truncate(side->sequences[r].second, own);
        contexts[r].insert(contexts[r].end(), {host.drafts[r].token(0), 7});
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, DeviceFeatureTest,
                         ::testing::Values("EAGLE", "EAGLE-3", "P-EAGLE", "MTP"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace specdec
