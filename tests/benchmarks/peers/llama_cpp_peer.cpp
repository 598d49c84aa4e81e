// llama.cpp's models, as peer.h asks for them, and its quantisation.
//
//   llama_cpp_peer THREADS POSITIONS TOKENS default|float32 mapped|copied TARGET.gguf [DRAFT.gguf]
//   llama_cpp_peer quantize q8_0|q4_1 THREADS FROM.gguf TO.gguf
//   llama_cpp_peer version
//
// POSITIONS: that the caches hold, in the type that follows. TOKENS: ids from here on are no
// tokens. All else is llama.cpp's default.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <llama.h>

#include "tests/benchmarks/peers/peer.h"

namespace specdec::peers {
namespace {

struct Options {
  int threads, positions, tokens;
  bool float32, mapped;
};

struct Free {
  void operator()(llama_model* model) const { llama_model_free(model); }
  void operator()(llama_context* context) const { llama_free(context); }
};

class LlamaCppModel final : public PeerModel {
 public:
  LlamaCppModel(const char* file, const Options& options) : positions_(options.positions) {
    llama_model_params model_params = llama_model_default_params();
    model_params.load_mode = options.mapped ? LLAMA_LOAD_MODE_MMAP : LLAMA_LOAD_MODE_NONE;
    model_.reset(llama_model_load_from_file(file, model_params));
    if (!model_) throw std::runtime_error(std::string(file) + ": llama.cpp cannot load it");
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<std::uint32_t>(positions_);
    params.n_outputs_max_per_seq = kMostLogitsRows;
    params.n_threads = params.n_threads_batch = options.threads;
    if (options.float32) {
      params.type_k = params.type_v = GGML_TYPE_F32;
      params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    }
    context_.reset(llama_init_from_model(model_.get(), params));
    if (!context_) throw std::runtime_error(std::string(file) + ": llama.cpp makes no context");
    const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model_.get()));
    tokens_ = static_cast<std::size_t>(std::min(options.tokens, vocabulary));
    batch_ = llama_batch_init(positions_, 0, 1);
  }
  ~LlamaCppModel() override { llama_batch_free(batch_); }

  void forward(std::span<const int> tokens, int rows) override {
    batch_.n_tokens = static_cast<int>(tokens.size());
    if (length_ + batch_.n_tokens > positions_) throw std::runtime_error("the cache is full");
    for (int i = 0; i < batch_.n_tokens; ++i) {
      batch_.token[i] = tokens[static_cast<std::size_t>(i)];
      batch_.pos[i] = length_ + i;
      batch_.n_seq_id[i] = 1;
      batch_.seq_id[i][0] = 0;
      batch_.logits[i] = i >= batch_.n_tokens - rows;
    }
    if (llama_decode(context_.get(), batch_) != 0) throw std::runtime_error("llama_decode failed");
    llama_synchronize(context_.get());
    first_row_ = batch_.n_tokens - rows;
    length_ += batch_.n_tokens;
  }
  std::span<const float> logits(int row) const override {
    return {llama_get_logits_ith(context_.get(), first_row_ + row), tokens_};
  }
  void truncate(int length) override {
    if (!llama_memory_seq_rm(llama_get_memory(context_.get()), 0, length, -1)) {
      throw std::runtime_error("llama.cpp cannot roll its cache back");
    }
    length_ = length;
  }
  int length() const override { return length_; }

 private:
  int positions_;
  std::unique_ptr<llama_model, Free> model_;
  std::unique_ptr<llama_context, Free> context_;
  llama_batch batch_ = {};
  std::size_t tokens_ = 0;
  int length_ = 0, first_row_ = 0;
};

int quantize(bool to_q4_1, const char* threads, const char* from, const char* to) {
  llama_model_quantize_params params = llama_model_quantize_default_params();
  params.nthread = std::atoi(threads);
  params.ftype = to_q4_1 ? LLAMA_FTYPE_MOSTLY_Q4_1 : LLAMA_FTYPE_MOSTLY_Q8_0;
  if (llama_model_quantize(from, to, &params) == 0) return 0;
  throw std::runtime_error(std::string(from) + ": llama.cpp cannot quantise it");
}

int run(int argc, char** argv) {
  const auto is = [&](int i, const char* word) { return argc > i && !std::strcmp(argv[i], word); };
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  if (is(1, "version") && argc == 2) {
    std::printf("%s; %s\n", llama_version(), llama_print_system_info());
    return 0;
  }
  if (is(1, "quantize") && argc == 6 && (is(2, "q8_0") || is(2, "q4_1"))) {
    return quantize(is(2, "q4_1"), argv[3], argv[4], argv[5]);
  }
  if (argc < 7 || argc > 8 || !(is(4, "default") || is(4, "float32")) ||
      !(is(5, "mapped") || is(5, "copied"))) {
    std::fprintf(stderr,
                 "usage: %s THREADS POSITIONS TOKENS default|float32 mapped|copied TARGET.gguf "
                 "[DRAFT.gguf]\n",
                 argv[0]);
    return 2;
  }
  const Options options = {std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]),
                           is(4, "float32"), is(5, "mapped")};
  LlamaCppModel target(argv[6], options);
  const auto draft = argc > 7 ? std::make_unique<LlamaCppModel>(argv[7], options) : nullptr;
  return serve(target, draft.get());
}

}  // namespace
}  // namespace specdec::peers

int main(int argc, char** argv) {
  llama_backend_init();
  try {
    return specdec::peers::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "llama_cpp_peer: %s\n", error.what());
    return 2;
  }
}
