// What stage 9's code does, as facts: which row drafts after a round, what heads make of it, and
// what is asked about each draft of a chain or a tree.
#include "tests/course/probes/facts.h"
#include "tests/course/probes/feature_scenes.h"
#include "tests/course/probes/self_scenes.h"

namespace specdec::course {
namespace {

// ---- 9.1

// After a round: a pending token and its drafts, all with logits, of which a path is kept.
struct AfterRound : RowsScene {
  AfterRound(int text, const Numbers& parents, const Numbers& path) {
    feed(text, 0);
    feed(int_size(parents), int_size(parents), parents);
    keep(text, path);
  }
};

void kept_facts(int text, const Numbers& parents, const Numbers& path, const std::string& when) {
  const int length = text + int_size(path);
  AfterRound scene(text, parents, path);
  scene.row_fact(when);
  scene.feed(2, 2);
  scene.rows.truncate(scene.sequence, length);
  scene.row_fact(when + ", after two more tokens that are rolled back");
  AfterRound other(text, parents, path);
  other.feed(3, 1);
  other.rows.truncate(other.sequence, length + 1);
  other.row_fact(when + ", after three more tokens, of which one stays");
}

void keeps_the_rows_of_the_path(std::uint64_t) {
  const Numbers book = {-1, 0, 0, 1, 1, 2, 3, 3, 4, 5};
  kept_facts(6, book, {0}, "when only the pending token is kept");
  kept_facts(6, book, {0, 1}, "when the first node of a level is kept");
  kept_facts(6, book, {0, 2}, "when the second node of a level is kept");
  kept_facts(6, book, {0, 2, 5, 9}, "when a path down to a leaf is kept");
  kept_facts(6, book, {0, 1, 4, 8}, "when a path of later siblings is kept");
  kept_facts(6, book, {}, "when nothing of the pass is kept");
  kept_facts(1, {-1, 0, 1, 2}, {0, 1, 2}, "when a chain's first drafts are kept");
}

void keeps_round_after_round(std::uint64_t seed) {
  RowsScene scene;
  scene.feed(3, 0);
  int length = 3;
  for (int round = 0; round < 3; round++) {
    const int branch = 1 + int(seed + std::uint64_t(round)) % 3;
    scene.feed(7, 7, {-1, 0, 0, 0, 1, 2, 3});
    const Numbers path = {0, branch, branch + 3};
    scene.keep(length, path);
    length += int_size(path);
    scene.row_fact(fmt::format("after round {}", round + 1));
  }
}

void forgets_rows_that_it_lacks(std::uint64_t) {
  RowsScene scene;
  scene.feed(4, 0);
  scene.feed(5, 2, {-1, 0, 0, 1, 2});  // logits for the last two nodes only
  scene.keep(4, {0, 2, 4});
  scene.row_fact("when the pass has rows of the last two nodes alone");
}

// ---- 9.2

void medusa_facts(const std::string& made_by, const std::vector<float>& weights,
                  const std::vector<float>& bias, int B, std::uint64_t seed) {
  constexpr int E = 4, kHeads = 3, kMostRows = 3;
  const auto backend = make_plain_backend();
  const HostMatrix matrix_of{WeightType::kF32, std::as_bytes(std::span(weights)), kHeads * E, E};
  MedusaHeads heads(*backend, backend->load_matrix(std::span(&matrix_of, 1)), bias, kMostRows);
  const auto x = numbers_of(seed, B * E);
  const DeviceArray<float> in(*backend, x.size()), out(*backend, x.size() * kHeads);
  backend->upload(x.data(), in.data(), x.size() * sizeof(float));
  backend->fill(matrix(out, B * kHeads, E), 0);
  heads.compute(matrix(in, B, E), matrix(out, B * kHeads, E));
  const auto made = to_host(*backend, matrix(out, B * kHeads, E));
  const std::span rows(made);
  for (int head = 0; head < kHeads; head++) {
    for (int b = 0; b < B; b++) {
      fact(fmt::format("row that head {} makes of row {} of {}, {}", head, b, B, made_by),
           floats(rows.subspan(std::size_t((head * B + b) * E), E)));
    }
  }
}

void makes_rows_of_medusa(std::uint64_t seed) {
  constexpr int kWeights = 3 * 4 * 4, kBiases = 3 * 4;
  const std::vector<float> no_weights(kWeights), no_bias(kBiases);
  const auto weights = numbers_of(seed, kWeights), bias = numbers_of(seed + 10, kBiases);
  medusa_facts("with zeros alone", no_weights, no_bias, 1, seed + 20);
  medusa_facts("with biases alone", no_weights, bias, 1, seed + 21);
  medusa_facts("with matrices alone", weights, no_bias, 1, seed + 22);
  medusa_facts("with both", weights, bias, 3, seed + 23);
}

// ---- 9.3

void puts_side_by_side(std::uint64_t seed) {
  const FeatureSwitches eagle = kFeatureLayers[0], eagle_3 = kFeatureLayers[1],
                        mtp = kFeatureLayers[2];
  FeatureScene(eagle, seed, false).facts(seed + 10, "EAGLE");
  FeatureScene(eagle, seed, true).facts(seed + 10, "EAGLE with a bias");
  FeatureSwitches other = eagle;
  other.feature_first = true;
  FeatureScene(other, seed, false).facts(seed + 10, "the feature first");
  FeatureScene(mtp, seed, false).facts(seed + 10, "MTP");
  FeatureScene(eagle_3, seed, false).facts(seed + 10, "EAGLE-3");
  other = eagle_3;
  other.normed_stream = true;
  FeatureScene(other, seed, false).facts(seed + 10, "EAGLE-3 with a normed stream");
  other.feature_first = true;
  FeatureScene(other, seed, false).facts(seed + 10, "EAGLE-3 with both switches");
}

// ---- 9.4

template <typename Facts>
void rounds_in_one_pass(Facts&& facts) {
  OnePassScene scene;
  const SequenceId one = scene.prefilled(6, 5), two = scene.prefilled(4, 0),
                   three = scene.prefilled(9, 6);
  facts(scene, {{one, 4}}, "a round of the first request");
  scene.model.truncate(one, 5);
  facts(scene, {{one, 1}}, "a round with K = 1");
  scene.model.truncate(one, 5);
  facts(scene, {{three, 2}, {two, 4}, {one, 3}}, "a round of three requests");
}

void feeds_all_in_one_pass(std::uint64_t) {
  rounds_in_one_pass([](OnePassScene& scene, const Drafting& rounds, const std::string& when) {
    scene.pass(rounds);
    scene.fed_facts(when);
  });
}

void says_its_own_rows(std::uint64_t) {
  rounds_in_one_pass([](OnePassScene& scene, const Drafting& rounds, const std::string& when) {
    for (const DraftRequest& request : scene.pass(rounds)) scene.said_fact(request, when);
  });
}

void refuses_too_many_drafts(std::uint64_t) {
  for (const int K : {0, 4, 5}) {
    OnePassScene scene;
    const SequenceId sequence = scene.prefilled(6, 5);
    const DraftRequest request{.sequence = scene.ids[0],
                               .context = scene.contexts[0],
                               .spec_length = K,
                               .sampling = {},
                               .drafts = nullptr,
                               .target_sequence = sequence};
    fact(fmt::format("{} drafts, with three appended tokens", K),
         fate([&] { scene.own.pass(scene.model, std::span(&request, 1)); }));
  }
}

// ---- 9.5

void asks_by_depth(std::uint64_t) {
  const auto backend = make_plain_backend();
  AskedModel model(*backend);
  const SequenceId one = model.create(), other = model.create(), third = model.create();
  const Tokens five(5), ten(10), two(2), four(4);
  const Numbers book = {-1, -1, 0, 0, 1, 2, 2, 3, 4, 4};
  const std::span all(ten);
  const std::span parents(book);
  const auto pass = [&](const std::vector<Segment>& batch, const std::string& when) {
    model.pass(batch, when);
  };
  pass({{one, five, 1}}, "after a context of five tokens");
  pass({{one, two, 2}}, "after two drafts of a chain");
  pass({{other, four, 1}, {third, two, 1}}, "after two contexts");
  pass({{other, all.first(2), 2, parents.first(2)}}, "after a tree's first level");
  pass({{other, all.subspan(2, 3), 3, parents.first(5)}}, "after its second level");
  pass({{third, all.first(1), 1}, {other, all.subspan(5, 4), 2, parents.first(9)}},
       "after a chain's draft and two nodes of four");
}

}  // namespace
}  // namespace specdec::course

int main(int argc, char** argv) {
  using namespace specdec::course;
  return run_probes(argc, argv,
                    {{"keeps_the_rows_of_the_path", keeps_the_rows_of_the_path},
                     {"keeps_round_after_round", keeps_round_after_round},
                     {"forgets_rows_that_it_lacks", forgets_rows_that_it_lacks},
                     {"makes_rows_of_medusa", makes_rows_of_medusa},
                     {"puts_side_by_side", puts_side_by_side},
                     {"feeds_all_in_one_pass", feeds_all_in_one_pass},
                     {"says_its_own_rows", says_its_own_rows},
                     {"refuses_too_many_drafts", refuses_too_many_drafts},
                     {"asks_by_depth", asks_by_depth}});
}
