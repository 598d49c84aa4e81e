#pragma once
#include <memory>
#include <utility>

#include "tests/unit/stages/06_batched_verification/batch_engine_fixture.h"

namespace specdec {

// Which calls of create() and extend() fail: those from `first` on, `count` of them.
struct Faults {
  int first = 0, count = 0;
  int calls = 0;

  void call() {
    const int call = calls++;
    if (first <= call && call < first + count) throw CacheFull("full by injection");
  }
};

template <typename Cache>
class FaultyCache final : public Cache {
 public:
  template <typename... Args>
  explicit FaultyCache(Faults& faults, Args&&... args)
      : Cache(std::forward<Args>(args)...), faults_(faults) {}

  SequenceId create() override {
    faults_.call();
    return Cache::create();
  }
  void extend(std::span<const Extension> extensions) override {
    faults_.call();
    Cache::extend(extensions);
  }

 private:
  Faults& faults_;
};

inline MakeCache make_faulty_cache(Faults& faults) {
  return [&](Backend& backend, const PoolSize& size) -> std::unique_ptr<KvCache> {
    if (size.page_size == PoolSize::kRegions) {
      return std::make_unique<FaultyCache<ContiguousKvCache>>(faults, backend, kTokenShape,
                                                              size.pages, PoolSize::kRegionLength);
    }
    return std::make_unique<FaultyCache<PagedKvCache>>(faults, backend, kTokenShape, size.pages,
                                                       size.page_size);
  };
}

}  // namespace specdec
