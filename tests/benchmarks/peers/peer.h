#pragma once
#include <span>
#include <vector>

// The work on which two engines are compared, written once. It needs nothing of either engine: the
// program of each engine gives its models, and takes its orders from stdin (serve()).
namespace specdec::peers {

// A language model with the cache of one sequence.
class PeerModel {
 public:
  PeerModel() = default;
  PeerModel(const PeerModel&) = delete;
  PeerModel& operator=(const PeerModel&) = delete;
  virtual ~PeerModel() = default;

  // Appends the tokens, and computes logits for the last `rows` of them. The logits are ready when
  // it returns.
  virtual void forward(std::span<const int> tokens, int rows) = 0;
  // Of the last forward; 0 is the first of its rows. [token ids]
  virtual std::span<const float> logits(int row) const = 0;
  virtual void truncate(int length) = 0;
  virtual int length() const = 0;
};

constexpr int kMostLogitsRows = 16;  // in one forward

// The likeliest token, the lowest id among equals, and how far the next logit is below it.
struct Choice {
  int token = 0;
  float margin = 0;
};
Choice choose(std::span<const float> logits);

struct Text {
  double seconds = 0;          // without the prompt's pass
  std::vector<int> tokens;     // by speculation perhaps some more than were asked for
  std::vector<float> margins;  // of each token's choice
  int rounds = 0;              // passes of the target
};
Text plain(PeerModel& target, std::span<const int> prompt, int count);
// K drafted tokens a round.
Text speculate(PeerModel& target, PeerModel& draft, std::span<const int> prompt, int count, int K);

// Seconds of each of `repeats` passes over `rows` rows after `cached` tokens, with logits for the
// last `logits_rows`. A pass that is not timed comes first.
std::vector<double> passes(PeerModel& model, int rows, int logits_rows, int cached, int repeats);

// Answers each line of stdin by a line of JSON on stdout, until stdin ends:
// - "pass ROWS LOGITS_ROWS CACHED REPEATS": {"seconds": [...]}
// - "plain COUNT ID...": {"seconds": ..., "rounds": ..., "tokens": [...], "margins": [...]}
// - "draft COUNT ID...": the same, by the draft alone
// - "speculate COUNT K ID...": the same, by both
// draft: may be null. Returns the exit code: 2 at an order that it does not know.
int serve(PeerModel& target, PeerModel* draft);

}  // namespace specdec::peers
