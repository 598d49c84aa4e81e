// The Backend of CUDA: checks shapes, owns memory, and launches all kernels in one stream.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/require.h"
#include "kernels/cuda/argmax/argmax.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/backend/transfers.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/cuda_matrix.h"
#include "kernels/cuda/graph_queue.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/matmul/cublas_gemm.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/move_slots.h"
#include "kernels/cuda/rms_norm/rms_norm.h"
#include "kernels/cuda/rope.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/sampling/cuda_sampler.h"
#include "kernels/cuda_backend.h"

namespace specdec {
namespace cuda::inline SPECDEC_CUDA_BUILD {
namespace {

using cpu::require;

const CudaMatrix& own(const WeightMatrix& matrix) {
  const auto* mine = dynamic_cast<const CudaMatrix*>(&matrix);
  require(mine != nullptr, "a matrix that this backend loaded");
  return *mine;
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(Gemm gemm)
      : queue_(stream_, gemm != Gemm::kCublas && !waits_after_launches() && uses_graphs()),
        gemm_(gemm) {
    reserve_argmax(32);
    if (gemm == Gemm::kCublas) cublas_ = std::make_unique<CublasGemm>(*this);
  }
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  std::string name() const override {
#ifdef SPECDEC_EMULATED
    return "CUDA emulated on the CPU";
#else
    cudaDeviceProp device{};
    cuda_check(cudaGetDeviceProperties(&device, 0));
    return std::string("CUDA, ") + device.name;
#endif
  }

  // ---- memory

  void* allocate(std::size_t bytes) override {
    void* block = nullptr;
    if (cudaMalloc(&block, bytes > 0 ? bytes : 1) != cudaSuccess) {
      cudaGetLastError();  // clears it
      std::size_t free = 0, total = 0;
      cuda_check(cudaMemGetInfo(&free, &total));
      throw OutOfDeviceMemory(bytes, free, total);
    }
    return block;
  }
  void deallocate(void* block) noexcept override {
    queue_.submit_or_fail_later();
    cudaFree(block);
  }
  void upload(const void* host, void* device, std::size_t bytes) override {
    transfers_.upload(host, device, bytes);
  }
  void download(const void* device, void* host, std::size_t bytes) override {
    transfers_.download(device, host, bytes);
  }
  Parcel parcel(std::size_t bytes) override { return transfers_.parcel(bytes); }
  void send(std::size_t bytes) override { transfers_.send(bytes); }
  void copy(const void* from, void* to, std::size_t bytes) override {
    if (bytes == 0) return;
    cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream()));
  }
  std::unique_ptr<const WeightMatrix> load_matrix(std::span<const HostMatrix> parts,
                                                  WeightFormat format) override {
    return std::make_unique<CudaMatrix>(*this, parts, format);
  }

  // ---- rows in, rows out

  void embed(const WeightMatrix& table, const std::int32_t* ids, DeviceRows out) override {
    require(out.width == table.width(), "out as wide as the table");
    if (out.rows > 0) cuda::embed(own(table), ids, out, stream());
  }
  void gather_rows(ConstDeviceRows x, const std::int32_t* rows, DeviceRows out) override {
    require(x.width == out.width, "x and out of the same width");
    if (out.rows > 0) cuda::gather_rows(x, rows, out, stream());
  }
  void rms_norm(ConstDeviceRows x, const float* weight, float eps, DeviceRows out) override {
    cpu::require_same_shape(x, out);
    if (x.rows > 0) cuda::rms_norm(x, weight, eps, out, stream());
  }
  void add_rms_norm(DeviceRows x, ConstDeviceRows y, const float* weight, float eps,
                    DeviceRows out) override {
    cpu::require_same_shape(x, y);
    cpu::require_same_shape(x, out);
    if (x.rows > 0) cuda::add_rms_norm(x, y, weight, eps, out, stream());
  }
  void matmul(ConstDeviceRows x, const WeightMatrix& weight, DeviceRows y) override {
    cpu::require_matmul(x, weight, y);
    if (x.rows == 0) return;
    if (cublas_ != nullptr) return cublas_->matmul(x, own(weight), y, stream());
    multiply(Then::kStore, x, weight, y);
  }
  void matmul_add(ConstDeviceRows x, const WeightMatrix& weight, DeviceRows products,
                  DeviceRows y) override {
    if (cublas_ != nullptr) return Backend::matmul_add(x, weight, products, y);
    cpu::require_matmul(x, weight, y);
    if (x.rows > 0) multiply(Then::kAdd, x, weight, y);
  }
  void matmul_silu_mul(ConstDeviceRows x, const WeightMatrix& weight, DeviceRows products,
                       DeviceRows out) override {
    if (cublas_ != nullptr) return Backend::matmul_silu_mul(x, weight, products, out);
    cpu::require_matmul(x, weight, products);
    require(2 * out.width == weight.rows() && out.rows == x.rows, "half as many outputs");
    if (x.rows > 0) multiply(Then::kSiluMul, x, weight, out);
  }
  void add(DeviceRows x, ConstDeviceRows y) override {
    cpu::require_same_shape(x, y);
    if (x.rows > 0) cuda::add(x, y, stream());
  }
  void silu_mul(ConstDeviceRows gate, ConstDeviceRows up, DeviceRows out) override {
    cpu::require_same_shape(gate, up);
    cpu::require_same_shape(gate, out);
    if (out.rows > 0) cuda::silu_mul(gate, up, out, stream());
  }
  void rope_angles(const std::int32_t* positions, const float* frequencies, DeviceRows cosines,
                   DeviceRows sines) override {
    cpu::require_same_shape(cosines, sines);
    if (sines.rows > 0) cuda::rope_angles(positions, frequencies, cosines, sines, stream());
  }
  void rope(DeviceRows x, ConstDeviceRows cosines, ConstDeviceRows sines) override {
    cpu::require_rope(x, cosines, sines);
    if (x.rows > 0) cuda::rope(x, cosines, sines, stream());
  }
  void store_kv(ConstDeviceRows k, ConstDeviceRows v, const RowPlaces& places,
                KvLayer cache) override {
    cpu::require_same_shape(k, v);
    if (k.rows > 0) cuda::store_kv(k, v, places, cache, stream());
  }
  void rope_store_kv(DeviceRows q, DeviceRows k, ConstDeviceRows v, ConstDeviceRows cosines,
                     ConstDeviceRows sines, const RowPlaces& places, KvLayer cache) override {
    cpu::require_rope(q, cosines, sines);
    cpu::require_rope(k, cosines, sines);
    cpu::require_same_shape(k, v);
    if (q.rows > 0) cuda::rope_store_kv(q, k, v, cosines, sines, places, cache, stream());
  }
  void matmul_rope_store_kv(ConstDeviceRows x, const WeightMatrix& weight, const HeadShape& heads,
                            DeviceRows qkv, ConstDeviceRows cosines, ConstDeviceRows sines,
                            const RowPlaces& places, KvLayer cache) override {
    if (cublas_ != nullptr || gemm_ == Gemm::kPlain || !can_pipeline(own(weight))) {
      return Backend::matmul_rope_store_kv(x, weight, heads, qkv, cosines, sines, places, cache);
    }
    const int q_width = heads.n_heads * heads.head_dim,
              kv_width = heads.n_kv_heads * heads.head_dim;
    cpu::require_matmul(x, weight, qkv);
    cpu::require_rope(qkv.columns(0, q_width), cosines, sines);
    require(q_width + 2 * kv_width == qkv.width, "q, k and v");
    if (x.rows == 0) return;
    matmul_pipeline_then(Then::kRopeStore, x, own(weight), qkv, stream(),
                         {cosines, sines, places.slots, cache, q_width, kv_width});
  }
  void move_slots(KvLayer cache, int width, std::span<const SlotMove> moves) override {
    cuda::move_slots(cache, width, moves, stream());
  }
  void reserve_attention(int rows, const HeadShape& heads, int context) override {
    const std::size_t wanted = attention_scratch(rows, heads, context);
    if (wanted <= attention_scratch_.size()) return;
    queue_.submit();
    queue_.forget();
    attention_scratch_ = {};  // frees it before the larger one is allocated
    attention_scratch_ = DeviceArray<float>(*this, wanted);
    if (attention_blocks_.size() == 0) attention_blocks_ = zeros<unsigned>(kAttentionBlocks);
  }
  void attention(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                 const HeadShape& heads, DeviceRows out) override {
    cpu::require_attention(q, heads, places, out);
    if (q.rows == 0) return;
    RowPlaces known = places;
    if (known.context == 0) known.context = context_of(places, q.rows);
    if (attention_scratch(1, heads, known.context) > attention_scratch_.size()) {
      reserve_attention(q.rows, heads, known.context);
    }
    cuda::attention(q, cache, known, heads, out,
                    {{attention_scratch_.data(), attention_scratch_.size()},
                     {attention_blocks_.data(), attention_blocks_.size()}},
                    stream());
  }
  void fill(DeviceRows x, float value) override {
    if (x.rows > 0 && x.width > 0) cuda::fill(x, value, stream());
  }

  // [snippet cuda-argmax]
  void argmax(ConstDeviceRows x, std::span<std::int32_t> ids) override {
    cpu::require_argmax(x, ids);
    if (x.rows == 0) return;
    reserve_argmax(x.rows);
    argmax_on_device(x, argmax_ids_.data());
    download(argmax_ids_.data(), ids.data(), ids.size_bytes());
  }
  // [end snippet cuda-argmax]
  void argmax_on_device(ConstDeviceRows x, std::int32_t* ids) override {
    if (x.rows == 0) return;
    reserve_argmax(x.rows);
    const ArgmaxScratch scratch{argmax_keys_.data(), argmax_blocks_.data()};
    queue_.add_few(
        graph_key(x.data, x.rows, x.width, x.stride, ids, scratch.keys, scratch.blocks_done),
        [=, this] { cuda::argmax(x, ids, scratch, stream_); });
  }

  // cuBLAS may allocate memory at any time, which no graph may. uses_graphs() is checked again here
  // so that a benchmark can compare an engine without graphs to one with them.
  std::unique_ptr<Recorder> make_recorder() override {
    if (!queue_.collects() || !uses_graphs()) return nullptr;
    return std::make_unique<GraphRecorder>(queue_);
  }
  void wait() override { transfers_.wait(); }

  bool samples() const override { return true; }
  std::unique_ptr<Sampler> make_sampler(const SamplerRoom& room) override {
    return std::make_unique<CudaSampler>(*this, room, stream_, queue_);
  }

 private:
  // For direct launches: submits the waiting operations first, to keep the order.
  cudaStream_t stream() {
    queue_.submit();
    return stream_;
  }

  void multiply(Then then, ConstDeviceRows x, const WeightMatrix& weight, DeviceRows y) {
    const auto kernel = gemm_ == Gemm::kPlain ? matmul_rows_then : matmul_then;
    kernel(then, x, own(weight), y, stream());
  }

  // One more than the largest position. The host waits for it, so engines set places.context.
  int context_of(const RowPlaces& places, int rows) {
    std::vector<std::int32_t> positions(rows);
    download(places.positions, positions.data(), positions.size() * sizeof(std::int32_t));
    return 1 + *std::max_element(positions.begin(), positions.end());
  }

  // Makes room for `rows` rows; never shrinks.
  void reserve_argmax(int rows) {
    const std::size_t wanted = rows;
    if (wanted <= argmax_ids_.size()) return;
    argmax_ids_ = DeviceArray<std::int32_t>(*this, wanted);
    argmax_keys_ = zeros<unsigned long long>(wanted);
    argmax_blocks_ = zeros<unsigned>(wanted);
  }

  // For what kernels leave at zero.
  template <typename T>
  DeviceArray<T> zeros(std::size_t count) {
    DeviceArray<T> array(*this, count);
    cuda_check(cudaMemsetAsync(array.data(), 0, count * sizeof(T), stream()));
    return array;
  }

  // Rows times query heads of a launch of attention, at most.
  static constexpr std::size_t kAttentionBlocks = 64 << 10;

  OwnStream stream_;  // for all launches and copies
  GraphQueue queue_;
  Transfers transfers_{stream_, queue_};
  Gemm gemm_;
  std::unique_ptr<CublasGemm> cublas_;  // null: our own product
  DeviceArray<std::int32_t> argmax_ids_;
  DeviceArray<unsigned long long> argmax_keys_;  // zero between launches, like argmax_blocks_
  DeviceArray<unsigned> argmax_blocks_;
  DeviceArray<float> attention_scratch_;  // never shrinks
  DeviceArray<unsigned> attention_blocks_;
};

}  // namespace
}  // namespace cuda::inline SPECDEC_CUDA_BUILD

#ifdef SPECDEC_EMULATED
std::unique_ptr<Backend> make_emulated_backend(Gemm gemm) {
#else
std::unique_ptr<Backend> make_cuda_backend(Gemm gemm) {
#endif
  return std::make_unique<cuda::CudaBackend>(gemm);
}

}  // namespace specdec
