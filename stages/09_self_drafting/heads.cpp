#include "stages/09_self_drafting/heads.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {

HeadParts::HeadParts(Backend& backend, int width, int scratch_width, int max_rows)
    : ops_(backend),
      ones_(backend, std::size_t(max_rows) * scratch_width),
      biases_(backend, std::size_t(max_rows) * scratch_width),
      each_(backend, max_rows),
      first_(backend, max_rows) {
  SPECDEC_CHECK(scratch_width >= width, "scratch of {} numbers in a row", width);
  ops_.fill(matrix(ones_, max_rows, scratch_width), 1);
  std::vector<std::int32_t> numbers(max_rows);
  ops_.upload(numbers.data(), first_.data(), numbers.size() * sizeof(std::int32_t));
  std::iota(numbers.begin(), numbers.end(), 0);
  ops_.upload(numbers.data(), each_.data(), numbers.size() * sizeof(std::int32_t));
}

void HeadParts::add_rows(ConstDeviceRows rows, ConstDeviceRows made, DeviceRows out) {
  const int B = rows.rows, E = rows.width;
  for (int head = 0; head < out.rows / B; ++head) {
    const DeviceRows of_head = out.slice(head * B, B);
    const ConstDeviceRows columns{made.data + head * E, B, E, made.stride};
    ops_.gather_rows(columns, each_.data(), of_head);
    ops_.add(of_head, rows);
  }
}

void HeadParts::silu(ConstDeviceRows x, DeviceRows out) {
  ops_.silu_mul(x, matrix(ones_, x.rows, x.width), out);
}

void HeadParts::add_bias(DeviceRows x, ConstDeviceRows bias) {
  const DeviceRows biases = matrix(biases_, x.rows, x.width);
  ops_.gather_rows(bias, first_.data(), biases);
  ops_.add(x, biases);
}

BlockwiseHeads::BlockwiseHeads(Backend& backend, std::unique_ptr<const WeightMatrix> up,
                               std::unique_ptr<const WeightMatrix> down, int max_rows)
    : ops_(backend),
      up_(std::move(up)),
      down_(std::move(down)),
      parts_(backend, up_->width(), std::max(up_->rows(), up_->width()), max_rows),
      hidden_(backend, std::size_t(max_rows) * up_->rows()),
      activated_(backend, std::size_t(max_rows) * up_->rows()),
      made_(backend, std::size_t(max_rows) * down_->rows()) {
  SPECDEC_CHECK(down_->width() == up_->rows() && down_->rows() % up_->width() == 0,
                "heads of {} numbers", up_->width());
}

// [snippet blockwise]
void BlockwiseHeads::compute(ConstDeviceRows rows, DeviceRows out) {
  const DeviceRows hidden = matrix(hidden_, rows.rows, up_->rows());
  const DeviceRows activated = matrix(activated_, rows.rows, up_->rows());
  const DeviceRows made = matrix(made_, rows.rows, down_->rows());
  ops_.matmul(rows, *up_, hidden);
  parts_.silu(hidden, activated);
  ops_.matmul(activated, *down_, made);  // the rows of all heads, side by side
  parts_.add_rows(rows, made, out);
}
// [end snippet blockwise]

MedusaHeads::MedusaHeads(Backend& backend, std::unique_ptr<const WeightMatrix> weight,
                         const std::vector<float>& bias, int max_rows)
    : ops_(backend),
      weight_(std::move(weight)),
      bias_(backend, bias.size()),
      parts_(backend, weight_->width(), weight_->rows(), max_rows),
      made_(backend, std::size_t(max_rows) * weight_->rows()),
      activated_(backend, std::size_t(max_rows) * weight_->rows()) {
  SPECDEC_CHECK(weight_->rows() % weight_->width() == 0 && std::ssize(bias) == weight_->rows(),
                "heads of {} numbers", weight_->width());
  backend.upload(bias.data(), bias_.data(), bias.size() * sizeof(float));
}

// [snippet medusa]
void MedusaHeads::compute(ConstDeviceRows rows, DeviceRows out) {
  // [task 9.2: Medusa heads]
  const DeviceRows made = matrix(made_, rows.rows, weight_->rows());
  const DeviceRows activated = matrix(activated_, rows.rows, weight_->rows());
  ops_.matmul(rows, *weight_, made);  // the blocks of all heads, side by side
  parts_.add_bias(made, matrix(bias_, 1, weight_->rows()));
  parts_.silu(made, activated);
  parts_.add_rows(rows, activated, out);
  // [end task 9.2]
}
// [end snippet medusa]

DeeperHeads::DeeperHeads(Backend& backend, std::unique_ptr<Heads> first, Blocks further,
                         int max_rows)
    : ops_(backend),
      first_(std::move(first)),
      further_(std::move(further)),
      made_(backend, std::size_t(max_rows) * width()) {
  SPECDEC_CHECK(int_size(further_) % count() == 0, "as many blocks for each of {} heads", count());
}

std::size_t DeeperHeads::bytes() const {
  std::size_t sum = first_->bytes();
  for (const auto& block : further_) sum += block->bytes();
  return sum;
}

void DeeperHeads::compute(ConstDeviceRows rows, DeviceRows out) {
  const int B = rows.rows;
  first_->compute(rows, out);
  const DeviceRows made = matrix(made_, B, width());
  for (int i = 0; i < int_size(further_); ++i) {
    const DeviceRows of_head = out.slice(i % count() * B, B);
    further_[i]->compute(of_head, made);
    ops_.copy(made.data, of_head.data, std::size_t(B) * width() * sizeof(float));
  }
}

}  // namespace specdec
