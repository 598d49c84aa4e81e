#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include "kernels/device_memory.h"
#include "kernels/kv_layer.h"
#include "kernels/sampling.h"

namespace specdec {

// The operations of a Llama: one contract for each, the same for every backend.
//
// Numerics: what an operation writes for a row depends only on that row's inputs, bit for bit. It
// does not depend on the number of rows in the call, the row's index, the page layout or the number
// of threads. Every sum has a fixed order. A NaN in one row never reaches another row, and masked
// positions are never read.
//
// Shapes: T rows of a pass (tokens), H query heads, Hkv key and value heads, D head_dim, V
// vocabulary. Outputs never overlap inputs, except where marked inout. The program aborts if sizes
// disagree.

// The type of a matrix's elements. Only a WeightMatrix can be kInt8; a checkpoint never is. kQ4 and
// kQ8 are groups of kGroupElements elements along a row, as GGUF has them: Q4_1 (see WeightFormat)
// and Q8_0, with
//   w[n][k] = scale * q, q from -128 to 127, and a binary16 scale for each group
// Only files have kQ8, in whole groups: no format rounds to it.
enum class WeightType { kF32, kF16, kBF16, kInt8, kQ4, kQ8 };

// Whether elements come in groups.
constexpr bool is_grouped(WeightType type) {
  return type == WeightType::kQ4 || type == WeightType::kQ8;
}

// How a backend keeps a weight matrix. kInt8 halves the bytes of a bf16 matrix, and changes its
// numbers: w[n][k] becomes scale[n] * q[n][k] (Dettmers et al. 2022, vector-wise absmax, only
// for weights), with
//   scale[n] = max over k of |w[n][k]| / 127, but at least the smallest normal float32
//   q[n][k]  = w[n][k] / scale[n] to the nearest integer, ties to even: -127 .. 127
// So an element changes by at most scale[n] / 2, apart from rounding. If a row holds a NaN or an
// infinity, its scale is NaN, and so is every product with the row.
//
// kQ4 keeps four bits of each element, and two binary16 for each group of kGroupElements elements
// of a row (the last group may be shorter): w[n][k] becomes scale * q + minimum in float32, with
//   minimum = the smallest element of the group
//   scale   = (the largest element - the smallest) / 15
//   q       = (w[n][k] - minimum) / scale to the nearest integer, ties to even: 0 .. 15
// both rounded to binary16 before they are used. It is the Q4_1 of GGUF, to the byte, which rounds
// q in another way. So an element changes by about scale / 2 at most. If a group holds anything
// that binary16 cannot hold, all of its elements become NaN.
enum class WeightFormat { kStored, kInt8, kQ4 };
inline constexpr int kGroupElements = 32;

// A weight matrix as stored in a checkpoint: row-major [rows, width], one row per output, at any
// alignment.
struct HostMatrix {
  WeightType type = WeightType::kF32;
  std::span<const std::byte> bytes;  // rows * width elements, or rows * groups of them
  int rows = 0;
  int width = 0;
};

// A weight matrix in a backend's own layout.
class WeightMatrix {
 public:
  virtual ~WeightMatrix() = default;
  int rows() const { return rows_; }            // outputs
  int width() const { return width_; }          // inputs
  std::size_t bytes() const { return bytes_; }  // read by one matmul, padding included

 protected:
  WeightMatrix(int rows, int width, std::size_t bytes)
      : rows_(rows), width_(width), bytes_(bytes) {}

 private:
  int rows_, width_;
  std::size_t bytes_;
};

// Where the tokens of a pass belong in their sequences and in the cache; device memory.
// In the sequence with page table t, position j is in slot
// t[j / page_size] * page_size + j % page_size. A contiguous cache has one page per sequence.
struct RowPlaces {
  const std::int32_t* positions = nullptr;     // [T] of each row's token in its sequence
  const std::int32_t* slots = nullptr;         // [T] slot mapping: where a row's key and value go
  const std::int32_t* table_starts = nullptr;  // [T] its sequence's table: page_tables + this
  const std::int32_t* page_tables = nullptr;   // page numbers, table after table
  int page_size = 1;
  int context = 0;  // above every position; 0: unknown

  // Rows of a tree of drafts share their sequence's table only below the position where the tree
  // begins. From that position on, each row has a tail: a list of its own, with the slots of its
  // ancestors and of itself in the order of positions. Position j of row t is in slot
  // tail_slots[tail_starts[t] + j - tail_firsts[t]].
  const std::int32_t* tail_firsts = nullptr;  // [T], the same for rows of one table; null: no tails
  const std::int32_t* tail_starts = nullptr;  // [T]
  const std::int32_t* tail_slots = nullptr;   // tail after tail

  // Runs of neighbouring rows of one table: run r begins at row run_starts[r]. A backend that knows
  // them starts no work for rows that another row's work includes.
  const std::int32_t* run_starts = nullptr;  // [runs], ascending, the first is 0
  int runs = 0;                              // 0: unknown

  // The places of the rows from t on, whose runs are unknown.
  RowPlaces from_row(int t) const {
    RowPlaces rest = *this;
    rest.run_starts = nullptr;
    rest.runs = 0;
    for (const std::int32_t** list :
         {&rest.positions, &rest.slots, &rest.table_starts, &rest.tail_firsts, &rest.tail_starts}) {
      if (*list != nullptr) *list += t;
    }
    return rest;
  }

  // For backends whose memory is the host's.
  int tail_first(int t) const {
    return tail_firsts == nullptr ? std::numeric_limits<int>::max() : tail_firsts[t];
  }
  std::int32_t tail_slot(int t, int j) const {  // REQUIRES: j >= tail_first(t)
    return tail_slots[tail_starts[t] + j - tail_firsts[t]];
  }
};

// Moves the contents of slot `from` to slot `to`.
struct SlotMove {
  std::int32_t from = 0;
  std::int32_t to = 0;
};

struct HeadShape {
  int n_heads = 0;     // H
  int n_kv_heads = 0;  // Hkv, divides H; query head h reads key head h / (H / Hkv)
  int head_dim = 0;    // D, even
};

// Repeats a list of operations, for a device that accepts many in one call (a CUDA graph).
class Recorder {
 public:
  // Everything that the operations depend on except the contents of memory: sizes and addresses.
  using Shape = std::array<std::int64_t, 8>;

  virtual ~Recorder() = default;

  // Does the backend calls that operations() makes: either calls it, or repeats what it did in an
  // earlier call with the same shape. The work is in order with all other work of the backend, and
  // is done at the latest when a result next comes back to the host. REQUIRES: operations() returns
  // nothing to the host, allocates nothing after the first call, and makes the same calls each time
  // with the same shape; what it refers to lives until the work is done.
  virtual void run(const Shape& shape, std::function<void()> operations) = 0;
};

// The two sides of memory that takes lists from the host to the device: the same, if the device's
// memory is the host's. Aligned to 16 bytes.
struct Parcel {
  std::byte* host = nullptr;
  std::byte* device = nullptr;
};

class Backend : public DeviceAllocator {
 public:
  // A description for people: "CPU, 2 threads, AVX-512".
  virtual std::string name() const = 0;
  // One line that its user should know; "" if there is none.
  virtual std::string warning() const { return ""; }

  // ---- memory

  // Copies between host and device, in order with all operations. When the call returns, the host
  // may reuse the memory of an upload, or read that of a download.
  virtual void upload(const void* host, void* device, std::size_t bytes) = 0;
  virtual void download(const void* device, void* host, std::size_t bytes) = 0;
  // Room for up to `bytes` bytes of lists, such as a pass's positions. The caller writes the first
  // ones on the host's side, and calls send() before any other operation. Later operations find
  // them on the device's side, until a result comes back to the host or, if the device's memory is
  // the host's, until the next parcel. So a backend may send many parcels in one copy, before
  // operations that were asked for earlier.
  virtual Parcel parcel(std::size_t bytes) = 0;
  virtual void send(std::size_t bytes) = 0;  // of the latest parcel
  // Device to device. REQUIRES: no overlap.
  virtual void copy(const void* from, void* to, std::size_t bytes) = 0;
  // Stacks matrices of the same type and width into one, whose outputs are theirs side by side.
  // Groups are kept to the bit. REQUIRES: no format that would round them again.
  virtual std::unique_ptr<const WeightMatrix> load_matrix(
      std::span<const HostMatrix> parts, WeightFormat format = WeightFormat::kStored) = 0;

  // Between these two calls, operations follow each other closely, so a backend may keep its
  // threads awake.
  virtual void begin_burst() {}
  virtual void end_burst() {}

  // ---- rows in, rows out

  // out[t] = row ids[t] of the table. ids: device memory, [T]; out: [T, table.width()]. A backend
  // that samples() also accepts -1, which means no token, and writes zeros.
  virtual void embed(const WeightMatrix& table, const std::int32_t* ids, DeviceRows out) = 0;

  // out[t] = x[rows[t]]. rows: device memory, [out.rows].
  virtual void gather_rows(ConstDeviceRows x, const std::int32_t* rows, DeviceRows out) = 0;

  // out = x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich 2019, equation 4).
  // weight: device memory, [width].
  virtual void rms_norm(ConstDeviceRows x, const float* weight, float eps, DeviceRows out) = 0;

  // x += y (x inout), then out = rms_norm(x): the bits of add and rms_norm.
  virtual void add_rms_norm(DeviceRows x, ConstDeviceRows y, const float* weight, float eps,
                            DeviceRows out) {
    add(x, y);
    rms_norm(x, weight, eps, out);
  }

  // y = x W^T. Each element is a sum of fused multiply-adds in one order: on a CPU, a single chain
  // over the inputs 0, 1, 2, ... With an int8 matrix, the sum uses q, and the row's scale
  // multiplies the result. With groups, each group has a sum that uses q and a sum of x; its scale
  // and its minimum multiply them. x: [T, W.width()], y: [T, W.rows()].
  virtual void matmul(ConstDeviceRows x, const WeightMatrix& weight, DeviceRows y) = 0;

  // y += x W^T (y inout): the bits of matmul and add. products: [T, W.rows()], scratch.
  virtual void matmul_add(ConstDeviceRows x, const WeightMatrix& weight, DeviceRows products,
                          DeviceRows y) {
    matmul(x, weight, products);
    add(y, products);
  }

  // x += y (x inout).
  virtual void add(DeviceRows x, ConstDeviceRows y) = 0;

  // out = silu(gate) * up, silu(z) = z / (1 + exp(-z)) (Shazeer 2020, SwiGLU).
  virtual void silu_mul(ConstDeviceRows gate, ConstDeviceRows up, DeviceRows out) = 0;

  // silu_mul of the left and the right half of x W^T: the bits of matmul and silu_mul. products:
  // [T, W.rows()], scratch; out: [T, W.rows() / 2].
  virtual void matmul_silu_mul(ConstDeviceRows x, const WeightMatrix& weight, DeviceRows products,
                               DeviceRows out) {
    matmul(x, weight, products);
    silu_mul(products.columns(0, out.width), products.columns(out.width, out.width), out);
  }

  // Cosine and sine of float32(position) x frequency, the product rounded to float32.
  // positions: device, [T]; frequencies: device, [D / 2]; cosines, sines: [T, D / 2].
  virtual void rope_angles(const std::int32_t* positions, const float* frequencies,
                           DeviceRows cosines, DeviceRows sines) = 0;

  // Rotates each head of x (inout, [T, heads * D]) by its row's angles: element i of a head pairs
  // with element i + D / 2 (Su et al. 2021, in the half-split order of Hugging Face).
  virtual void rope(DeviceRows x, ConstDeviceRows cosines, ConstDeviceRows sines) = 0;

  // Writes the rows of k and v, [T, Hkv * D], to places.slots of the cache, rounded to its type.
  // REQUIRES: the slots are distinct.
  virtual void store_kv(ConstDeviceRows k, ConstDeviceRows v, const RowPlaces& places,
                        KvLayer cache) = 0;

  // rope of q and k (both inout), then store_kv of k and v: the same bits.
  virtual void rope_store_kv(DeviceRows q, DeviceRows k, ConstDeviceRows v, ConstDeviceRows cosines,
                             ConstDeviceRows sines, const RowPlaces& places, KvLayer cache) {
    rope(q, cosines, sines);
    rope(k, cosines, sines);
    store_kv(k, v, places, cache);
  }

  // matmul into qkv, whose columns are q, k and v, then rope_store_kv: the same bits in q and in
  // the cache. qkv: [T, W.rows()]; k and v in it are scratch.
  virtual void matmul_rope_store_kv(ConstDeviceRows x, const WeightMatrix& weight,
                                    const HeadShape& heads, DeviceRows qkv, ConstDeviceRows cosines,
                                    ConstDeviceRows sines, const RowPlaces& places, KvLayer cache) {
    const int q_width = heads.n_heads * heads.head_dim,
              kv_width = heads.n_kv_heads * heads.head_dim;
    matmul(x, weight, qkv);
    rope_store_kv(qkv.columns(0, q_width), qkv.columns(q_width, kv_width),
                  qkv.columns(q_width + kv_width, kv_width), cosines, sines, places, cache);
  }

  // Moves keys and values of `width` numbers, one move after the other, so a move may overwrite
  // what an earlier one has read. moves: host memory. REQUIRES: no move has `from` == `to`; a
  // slot's keys take a multiple of 4 bytes.
  virtual void move_slots(KvLayer cache, int width, std::span<const SlotMove> moves) {
    const std::size_t bytes = width * element_size(cache.type);
    for (const auto [from, to] : moves) {
      for (void* rows : {cache.keys, cache.values}) {
        auto* slots = static_cast<std::byte*>(rows);
        copy(slots + from * bytes, slots + to * bytes, bytes);
      }
    }
  }

  // Allocates the memory that attention needs up to these sizes, so that no later call does. rows:
  // the largest T; context: the most positions.
  virtual void reserve_attention(int /*rows*/, const HeadShape& /*heads*/, int /*context*/) {}

  // out[t] = softmax(q[t] K^T / sqrt(D)) V over positions 0 .. positions[t] of row t's sequence,
  // head by head (Vaswani et al. 2017, equation 1). q, out: [T, H * D]. The sum runs over chunks of
  // a fixed size at absolute positions, by online softmax (Milakov and Gimelshein 2018). The CPU's
  // order is that of kernels/cpu/plain.cpp, with kAttentionChunk positions per chunk; CUDA's is
  // that of kernels/cuda/attention/attention_4_split.cu.
  virtual void attention(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                         const HeadShape& heads, DeviceRows out) = 0;

  // x = value.
  virtual void fill(DeviceRows x, float value) = 0;

  // ids[t] = the index of the largest element of row t, the lowest index among equals; -1 if the
  // row holds a NaN. ids: host memory, [x.rows], written when the call returns.
  virtual void argmax(ConstDeviceRows x, std::span<std::int32_t> ids) = 0;
  // The same with ids in device memory, in order with all operations.
  virtual void argmax_on_device(ConstDeviceRows x, std::int32_t* ids) = 0;

  // Null if single calls are as fast. The backend outlives the recorder.
  virtual std::unique_ptr<Recorder> make_recorder() { return nullptr; }

  // Returns when the device has finished all its work.
  virtual void wait() {}

  // Whether the backend chooses tokens in its own memory. A backend in the host's memory need not,
  // because the host reads its logits in place.
  virtual bool samples() const { return false; }
  // Null if samples() is false. The backend outlives the sampler.
  virtual std::unique_ptr<Sampler> make_sampler(const SamplerRoom& /*room*/) { return nullptr; }
};

inline constexpr int kAttentionChunk = 64;

}  // namespace specdec
