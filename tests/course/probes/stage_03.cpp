// Facts about stage 3: the allocator alone, then the books of the paged cache and what lies in it.
#include "stages/03_paged_kv_cache/page_allocator.h"
#include "stages/03_paged_kv_cache/paged_kv_cache.h"
#include "tests/course/probes/cache_scene.h"
#include "tests/course/probes/facts.h"

namespace specdec {
namespace {

using course::fact;

void allocate(std::uint64_t seed) {
  const int n_pages = 4 + static_cast<int>(seed % 3);
  PageAllocator pages(n_pages);
  for (const char* which : {"first", "second", "third"}) {
    fact(fmt::format("of {} pages, the {} allocated", n_pages, which), pages.allocate());
    fact(fmt::format("owners of pages 0, 1, 2 after the {}", which),
         std::vector<int>{pages.owners(0), pages.owners(1), pages.owners(2)});
  }
  fact("pages free", pages.n_free());
  fact("pages in use", pages.n_used());
  fact("most pages that were ever in use", pages.peak_used());
  while (pages.n_free() > 0) pages.allocate();
  fact("allocating when no page is free", course::fate([&] { pages.allocate(); }));
}

void free(std::uint64_t seed) {
  PageAllocator pages(6);
  for (int i = 0; i < 4; i++) pages.allocate();
  const std::int32_t alone = static_cast<std::int32_t>(seed % 2), shared = 2;
  pages.free(alone);
  fact("pages free of 6 after 4 were allocated and 1 freed", pages.n_free());
  fact("pages with several owners after 4 were allocated and 1 freed", pages.n_shared());
  fact("owners of the freed page", pages.owners(alone));
  fact("the page that is allocated next", pages.allocate());
  pages.share(shared);
  pages.free(shared);
  fact("owners of a page with 2, freed once", pages.owners(shared));
  fact("pages free when one owner is left", pages.n_free());
  fact("pages with several owners when one is left", pages.n_shared());
  pages.free(shared);
  fact("owners of a page with 2, freed twice", pages.owners(shared));
  fact("pages free when no owner is left", pages.n_free());
  fact("freeing a page that is free", course::fate([&] { pages.free(shared); }));
}

// A pool of pages of 4.
struct Scene : course::CacheScene<PagedKvCache> {
  Scene(std::uint64_t seed, int n_pages, int page_size = 4)
      : CacheScene(seed, n_pages, page_size) {}

  std::vector<int> table(SequenceId sequence) const {
    const auto pages = cache.pages(sequence);
    return {pages.begin(), pages.end()};
  }
  int n_free() const { return cache.allocator().n_free(); }
  std::vector<int> owners() const {
    std::vector<int> owners;
    for (int page = 0; page < cache.allocator().n_pages(); page++) {
      owners.push_back(cache.allocator().owners(page));
    }
    return owners;
  }
  // Pages whose number of owners is not that of the tables that hold them.
  int wrongly_counted() const {
    std::vector<int> tables(static_cast<std::size_t>(cache.allocator().n_pages()));
    for (const SequenceId sequence : cache.sequences()) {
      for (const std::int32_t page : cache.pages(sequence))
        tables[static_cast<std::size_t>(page)]++;
    }
    int wrong = 0;
    for (std::size_t page = 0; page < tables.size(); page++)
      wrong += tables[page] != owners()[page];
    return wrong;
  }
  std::string fits(std::vector<Extension> extensions) const {
    return cache.can_extend(extensions) ? "yes" : "no";
  }
};

void pages_for_new(std::uint64_t seed) {
  const int n_pages = 3 + static_cast<int>(seed % 3);
  Scene scene(seed, n_pages);
  const SequenceId a = scene.cache.create(), b = scene.cache.create();
  const std::string pool = fmt::format("{} free pages of 4, ", n_pages);
  for (const int tokens : {0, 1, 4 * n_pages, 4 * n_pages + 1}) {
    fact(fmt::format("{}a new sequence: room for {}", pool, tokens), scene.fits({{a, tokens}}));
  }
  for (const int first : {1, 4, 5}) {
    const int rest = 4 * (n_pages - 1);
    fact(fmt::format("{}two new sequences: room for {} and {}", pool, first, rest),
         scene.fits({{a, first}, {b, rest}}));
  }
}

void pages_for_shared(std::uint64_t seed) {
  Scene scene(seed, 4);
  const int length = scene.between(5, 6);
  const SequenceId a = scene.create(length);
  const std::string pool = fmt::format("4 pages of 4, a sequence of {}: room for ", length);
  for (const int more : {8 - length, 16 - length, 17 - length}) {
    fact(fmt::format("{}{} more", pool, more), scene.fits({{a, more}}));
  }
  const SequenceId b = scene.cache.fork(a);
  const std::string shared = fmt::format("{} tokens and a fork of them: room for ", length);
  fact(shared + "1 more of the first, with a copy", scene.fits({{a, 1}}));
  fact(fmt::format("{}{} more of the first", shared, 12 - length), scene.fits({{a, 12 - length}}));
  fact(fmt::format("{}{} more of the first", shared, 13 - length), scene.fits({{a, 13 - length}}));
  fact(fmt::format("{}{} more of the first and {} of the fork", shared, 12 - length, 8 - length),
       scene.fits({{a, 12 - length}, {b, 8 - length}}));
  const SequenceId c = scene.create(4);
  fact(shared + "1 more of each when 1 page is free", scene.fits({{a, 1}, {b, 1}}));
  fact(shared + "1 more of each and of a third, when 1 page is free",
       scene.fits({{a, 1}, {b, 1}, {c, 1}}));
}

void grow(std::uint64_t seed) {
  Scene scene(seed, 5);
  PagedKvCache& cache = scene.cache;
  const SequenceId a = cache.create(), b = cache.create();
  const int n = scene.between(5, 7);
  scene.extend({{a, n}});
  fact(fmt::format("pages of 4: table of {} tokens", n), scene.table(a));
  fact(fmt::format("length of a sequence extended by {}", n), cache.length(a));
  scene.extend({{a, 8 - n}, {b, 1}});
  fact("table when 2 pages are just full", scene.table(a));
  fact("table of another sequence, of 1 token", scene.table(b));
  scene.extend({{a, 1}});
  fact("table of 9 tokens", scene.table(a));
  fact("slot of the last of 9 tokens", cache.slot(a, 8));
  fact("pages free of 5", scene.n_free());
  fact("4 more for each, with 1 page free", scene.answer([&] { scene.extend({{a, 4}, {b, 4}}); }));
  fact("lengths after the refusal", std::vector<int>{cache.length(a), cache.length(b)});
  fact("pages free after the refusal", scene.n_free());
  fact("3 more for each, which fill the pages that they have", scene.answer([&] {
    scene.extend({{a, 3}, {b, 3}});
  }));
  fact("lengths when all their pages are full", std::vector<int>{cache.length(a), cache.length(b)});
  fact("pages free when their pages are full", scene.n_free());
}

void share(std::uint64_t seed) {
  Scene scene(seed, 6);
  PagedKvCache& cache = scene.cache;
  const int length = scene.between(5, 7);
  const SequenceId a = scene.create(length);
  scene.write(a, 100);
  const SequenceId b = cache.fork(a);
  fact(fmt::format("table of a fork of {} tokens in pages of 4", length), scene.table(b));
  fact("length of the fork", cache.length(b));
  fact("owners of the 6 pages, two sequences", scene.owners());
  fact("what the fork reads", scene.read(b));
  const SequenceId c = cache.share_prefix(a, 3);
  fact("table of a sequence that shares the first 3 tokens", scene.table(c));
  fact("length of a sequence that shares the first 3 tokens", cache.length(c));
  fact("owners of the 6 pages, three sequences", scene.owners());
  fact("bytes copied", cache.bytes_copied());
}

void copy_on_write(std::uint64_t seed) {
  Scene scene(seed, 6);
  PagedKvCache& cache = scene.cache;
  const int length = scene.between(5, 7);
  const SequenceId a = scene.create(length);
  scene.write(a, 100);
  const SequenceId b = cache.fork(a);
  scene.extend({{b, 1}});
  scene.write(b, 200, length);
  fact(fmt::format("table of a fork of {} tokens in pages of 4, after 1 more", length),
       scene.table(b));
  fact("table of the original, which nothing was appended to", scene.table(a));
  fact("owners of the 6 pages", scene.owners());
  fact("what the fork reads", scene.read(b));
  fact("slots that were copied", cache.bytes_copied() / cache.memory().shape().bytes_per_token());
  scene.extend({{a, 1}});
  scene.write(a, 300, length);
  fact("table of the original, after 1 more of its own", scene.table(a));
  fact("what the original reads", scene.read(a));
  fact("what the fork reads after the original got 1 more", scene.read(b));
  fact("pages free of 6 after both", scene.n_free());
}

// A full page is shared for good: what is appended goes to the next one.
void copies_nothing(std::uint64_t seed) {
  Scene scene(seed, 6);
  PagedKvCache& cache = scene.cache;
  const SequenceId a = scene.create(8), b = cache.fork(a);
  scene.extend({{b, 1}});
  fact("table of a fork of 8 tokens in pages of 4, after 1 more", scene.table(b));
  fact("bytes copied for the token behind a full page", cache.bytes_copied());
  const SequenceId c = cache.fork(b);
  scene.extend({{c, 0}});
  fact("table of a fork of 9 tokens, after 0 more", scene.table(c));
  fact("bytes copied for 0 tokens", cache.bytes_copied());
}

void truncate(std::uint64_t seed) {
  Scene scene(seed, 5);
  PagedKvCache& cache = scene.cache;
  const int length = scene.between(13, 16), kept = scene.between(5, 7);
  const SequenceId a = scene.create(length);
  scene.write(a, 100);
  cache.truncate(a, kept);
  fact(fmt::format("table of {} tokens in pages of 4, truncated to {}", length, kept),
       scene.table(a));
  fact("length after truncating", cache.length(a));
  fact("pages free of 5 after truncating", scene.n_free());
  fact("what is read after truncating", scene.read(a));
  cache.truncate(a, 4);
  fact("table after truncating to 4", scene.table(a));
  scene.create(scene.between(9, 12));
  fact("pages free when another sequence has taken 3", scene.n_free());
  fact("what the first one reads when the other has taken 3 pages", scene.read(a));
  cache.truncate(a, 0);
  fact("table after truncating to 0", scene.table(a));
  fact("pages free after truncating to 0", scene.n_free());
  fact("truncating 0 tokens to 1", course::fate([&] { cache.truncate(a, 1); }));
  fact("truncating to -1", course::fate([&] { cache.truncate(a, -1); }));
}

// Random calls; what is read must be what was written, and in the end all pages must be free.
void no_page_is_lost(std::uint64_t seed) {
  constexpr int kPages = 8;
  Scene scene(seed, kPages, 3);
  PagedKvCache& cache = scene.cache;
  for (int call = 1; call <= 60; call++) {
    const std::vector<SequenceId> all = cache.sequences();
    const int choice = scene.between(0, 9), which = scene.between(0, 99),
              count = scene.between(1, 4);
    const SequenceId sequence = all.empty() ? 0 : all[static_cast<std::size_t>(which) % all.size()];
    if (all.size() < 2) {
      cache.create();
    } else if (choice < 2 && all.size() < 5) {
      cache.fork(sequence);
    } else if (choice < 3) {
      cache.release(sequence);
    } else if (choice < 5) {
      cache.truncate(sequence, std::max(0, cache.length(sequence) - count));
    } else {
      const int begin = cache.length(sequence);
      scene.answer([&] { scene.extend({{sequence, count}}); });
      scene.write(sequence, 100 * call, begin);
    }
    if (call % 10 != 0) continue;
    fact(fmt::format("after {} calls, pages with more or fewer owners than tables", call),
         scene.wrongly_counted());
    for (const SequenceId s : cache.sequences()) {
      fact(fmt::format("after {} calls, sequence {} reads", call, s), scene.read(s));
    }
    fact(fmt::format("after {} calls, pages free of {}", call, kPages), scene.n_free());
  }
  for (const SequenceId sequence : cache.sequences()) cache.release(sequence);
  fact("pages free when all are released", scene.n_free());
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  using namespace specdec;
  return course::run_probes(argc, argv,
                            {{"allocate", allocate},
                             {"free", specdec::free},
                             {"pages_for_new", pages_for_new},
                             {"pages_for_shared", pages_for_shared},
                             {"grow", grow},
                             {"share", share},
                             {"copy_on_write", copy_on_write},
                             {"copies_nothing", copies_nothing},
                             {"truncate", specdec::truncate},
                             {"no_page_is_lost", no_page_is_lost}});
}
