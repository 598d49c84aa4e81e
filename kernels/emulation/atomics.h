#pragma once
#include <atomic>
#include <type_traits>

// Atomic operations on int, unsigned, unsigned long long, and all other types of std::atomic_ref.
// Each returns the old value. As on the GPU, they order no other access (relaxed).
namespace specdec::emulation {

// Replaces the value by change(value).
template <typename T, typename Change>
T atomically(T* address, const Change& change) {
  std::atomic_ref<T> value(*address);
  T old = value.load(std::memory_order_relaxed);
  while (!value.compare_exchange_weak(old, change(old), std::memory_order_relaxed)) {
  }
  return old;
}

}  // namespace specdec::emulation

template <typename T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return specdec::emulation::atomically(address,
                                        [=](T old) { return static_cast<T>(old + value); });
}
template <typename T>
T atomicSub(T* address, std::type_identity_t<T> value) {
  return specdec::emulation::atomically(address,
                                        [=](T old) { return static_cast<T>(old - value); });
}
template <typename T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return specdec::emulation::atomically(address, [=](T old) { return old < value ? value : old; });
}
template <typename T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return specdec::emulation::atomically(address, [=](T old) { return value < old ? value : old; });
}
// Adds one; a value of `last` or more becomes zero.
inline unsigned atomicInc(unsigned* address, unsigned last) {
  return specdec::emulation::atomically(address,
                                        [=](unsigned old) { return old >= last ? 0 : old + 1; });
}
template <typename T>
T atomicAnd(T* address, std::type_identity_t<T> value) {
  return specdec::emulation::atomically(address, [=](T old) { return old & value; });
}
template <typename T>
T atomicOr(T* address, std::type_identity_t<T> value) {
  return specdec::emulation::atomically(address, [=](T old) { return old | value; });
}
template <typename T>
T atomicXor(T* address, std::type_identity_t<T> value) {
  return specdec::emulation::atomically(address, [=](T old) { return old ^ value; });
}
template <typename T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).exchange(value, std::memory_order_relaxed);
}
template <typename T>
T atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  std::atomic_ref<T>(*address).compare_exchange_strong(compare, value, std::memory_order_relaxed);
  return compare;
}
