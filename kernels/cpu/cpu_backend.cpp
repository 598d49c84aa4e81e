#include "kernels/cpu/cpu_backend.h"

#include "kernels/cpu/attention.h"
#include "kernels/cpu/blocked_matmul.h"
#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/prepared_rows.h"
#include "kernels/cpu/require.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/cpu/thread_team.h"

namespace specdec {
namespace {

// The matrix as this backend's type. It is a caller's bug if another backend has loaded it.
const cpu::PackedMatrix& packed(const WeightMatrix& matrix) {
  const auto* own = dynamic_cast<const cpu::PackedMatrix*>(&matrix);
  cpu::require(own != nullptr, "a matrix that a CPU backend loaded");
  return *own;
}

class CpuBackend : public cpu::HostBackend {
 public:
  explicit CpuBackend(int threads) : team_(threads) {}

  std::string name() const override {
    return "CPU, " + std::to_string(team_.size()) +
           (team_.size() == 1 ? " thread, " : " threads, ") + cpu::kVectorName;
  }

  std::string warning() const override {
    if (team_.size() == team_.wanted()) return "";
    return std::to_string(team_.size()) + " threads, not " + std::to_string(team_.wanted()) +
           (team_.wanted() > cpu::most_threads() ? ": the cores have no use for more"
                                                 : ": the system gives no more");
  }

  void begin_burst() override { team_.begin_burst(); }
  void end_burst() override { team_.end_burst(); }

  std::unique_ptr<const WeightMatrix> load_matrix(std::span<const HostMatrix> parts,
                                                  WeightFormat format) override {
    auto matrix = std::make_unique<cpu::PackedMatrix>(parts, format, *this, team_);
    blocked_.reserve(matrix->width());
    prepared_.reserve(matrix->type(), cpu::BlockedMatmul::kFewestRows, matrix->width());
    return matrix;
  }

  void embed(const WeightMatrix& table,  // [V, E]
             const std::int32_t* ids,    // [T]
             DeviceRows out) override {  // [T, E]
    cpu::require(out.width == table.width(), "out as wide as the table");
    const cpu::PackedMatrix& rows = packed(table);
    for (int t = 0; t < out.rows; ++t) {
      cpu::require(0 <= ids[t] && ids[t] < table.rows(), "ids inside the table");
      rows.read_row(ids[t], out.row(t));
    }
  }

  void matmul(ConstDeviceRows x, const WeightMatrix& weight, DeviceRows y) override {
    cpu::require_matmul(x, weight, y);
    if (x.rows < cpu::BlockedMatmul::kFewestRows) {
      cpu::matmul(team_, x, packed(weight), prepared_, y);
    } else {
      blocked_.multiply(team_, x, packed(weight), y);
    }
  }

  void rms_norm(ConstDeviceRows x, const float* weight, float eps, DeviceRows out) override {
    cpu::require_same_shape(x, out);
    cpu::rms_norm(team_, x, weight, eps, out);
  }

  void add(DeviceRows x, ConstDeviceRows y) override {
    cpu::require_same_shape(x, y);
    cpu::add(team_, x, y);
  }

  void silu_mul(ConstDeviceRows gate, ConstDeviceRows up, DeviceRows out) override {
    cpu::require_same_shape(gate, up);
    cpu::require_same_shape(gate, out);
    cpu::silu_mul(team_, gate, up, out);
  }

  void rope(DeviceRows x, ConstDeviceRows cosines, ConstDeviceRows sines) override {
    cpu::require_rope(x, cosines, sines);
    cpu::rope(team_, x, cosines, sines);
  }

  void attention(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                 const HeadShape& heads, DeviceRows out) override {
    cpu::require_attention(q, heads, places, out);
    cpu::attention(team_, q, cache, places, heads, out);
  }

  void argmax(ConstDeviceRows x, std::span<std::int32_t> ids) override {
    cpu::require_argmax(x, ids);
    cpu::argmax(team_, x, ids);
  }

 private:
  cpu::ThreadTeam team_;
  cpu::BlockedMatmul blocked_{*this};
  cpu::PreparedRows prepared_{*this};
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(int threads) {
  return std::make_unique<CpuBackend>(threads);
}

}  // namespace specdec
