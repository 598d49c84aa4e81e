#include "stages/programs/cache/pool_picture.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <fmt/color.h>

#include "kernels/int_size.h"

namespace specdec {
namespace {

constexpr int kColumns = 80;
constexpr int kCellsPerLine = 20;

// What the picture shows of a page.
struct Cell {
  SequenceId owner = -1;  // a sequence that has the page; the only one unless it is shared
  int sequences = 0;      // how many have it; if none has a page in use, it is held
  int rows = 0;           // in use, by the sequence that uses most of them
};

// A to Z and a to z; after that, a question mark.
char letter(SequenceId sequence) {
  if (sequence < 26) return static_cast<char>('A' + sequence);
  if (sequence < 52) return static_cast<char>('a' + sequence - 26);
  return '?';
}

// Neighbours have different colours. None is the grey of free pages or the white of shared pages.
fmt::text_style style(SequenceId sequence) {
  static constexpr std::array kColours = {fmt::terminal_color::green, fmt::terminal_color::yellow,
                                          fmt::terminal_color::blue,  fmt::terminal_color::magenta,
                                          fmt::terminal_color::cyan,  fmt::terminal_color::red};
  return fmt::fg(kColours.at(sequence % kColours.size()));
}

std::string paint(std::string_view text, const fmt::text_style& style, bool colour) {
  return colour ? fmt::format(style, "{}", text) : std::string(text);
}

// A block whose height shows how full the page is. Only a full page has the whole height, and a
// single row is visible. REQUIRES: rows >= 1.
std::string_view level(int rows, int page_size) {
  static constexpr std::array<std::string_view, 8> kEighths = {"▁", "▂", "▃", "▄",
                                                               "▅", "▆", "▇", "█"};
  const std::int64_t eighths = std::int64_t{8} * rows / page_size;
  return kEighths.at(std::max<std::int64_t>(eighths, 1) - 1);
}

std::vector<Cell> find_cells(const PagedKvCache& cache) {
  std::vector<Cell> cells(cache.allocator().n_pages());
  for (const SequenceId sequence : cache.sequences()) {
    int left = cache.length(sequence);
    for (const std::int32_t page : cache.pages(sequence)) {
      Cell& cell = cells[page];
      cell.owner = sequence;
      ++cell.sequences;
      cell.rows = std::max(cell.rows, std::min(left, cache.page_size()));
      left -= cache.page_size();
    }
  }
  return cells;
}

// Two columns, the second of which may be blank.
std::string cell_text(const PagedKvCache& cache, const Cell& cell, int page, bool colour) {
  if (cache.allocator().owners(page) == 0) return paint("·", fmt::emphasis::faint, colour) + " ";
  if (cell.sequences == 0) return paint("#", fmt::emphasis::bold, colour) + " ";
  const std::string_view height = level(cell.rows, cache.page_size());
  if (cell.sequences == 1) {
    return paint(fmt::format("{}{}", letter(cell.owner), height), style(cell.owner), colour);
  }
  return paint((cell.sequences < 10 ? fmt::to_string(cell.sequences) : "+") + std::string(height),
               fmt::emphasis::bold, colour);
}

// The cells of pages first .. end - 1, after the number of the first.
std::string grid_line(const PagedKvCache& cache, const std::vector<Cell>& cells, int first, int end,
                      bool colour) {
  std::string line = fmt::format("{:>6} ", first);
  for (int page = first; page < end; ++page) {
    line += " " + cell_text(cache, cells[page], page, colour);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

// Lines of 20 cells. Of consecutive lines with only free pages, the first is shown.
std::string grid(const PagedKvCache& cache, bool colour) {
  const std::vector<Cell> cells = find_cells(cache);
  const int n = int_size(cells);
  const auto end_of_line = [&](int first) { return std::min(n - first, kCellsPerLine) + first; };
  const auto is_free = [&](int first) {
    for (int page = first; page < end_of_line(first); ++page) {
      if (cache.allocator().owners(page) > 0) return false;
    }
    return true;
  };
  std::string text;
  for (int first = 0; first < n;) {
    const int end = end_of_line(first);
    text += grid_line(cache, cells, first, end, colour);
    int next = end;
    while (is_free(first) && next < n && is_free(next)) next = end_of_line(next);
    if (next > end) text += fmt::format("{:>6}  ... {} more free pages\n", end, next - end);
    first = next;
  }
  return text;
}

// Whether a page is in use, but in no sequence.
bool holds_pages(const PagedKvCache& cache) {
  const std::vector<Cell> cells = find_cells(cache);
  const auto in_sequences =
      std::ranges::count_if(cells, [](const Cell& c) { return c.sequences > 0; });
  return in_sequences < cache.allocator().n_used();
}

// "A  sequence 0: 14 tokens in pages 0 1 4", the pages wrapped and indented.
std::string table_line(const PagedKvCache& cache, SequenceId sequence, bool colour) {
  const int length = cache.length(sequence);
  const std::string name(1, letter(sequence));
  std::string line =
      fmt::format("  sequence {}: {} token{}", sequence, length, length == 1 ? "" : "s");
  if (length > 0) line += cache.pages(sequence).size() == 1 ? " in page" : " in pages";
  std::string text = paint(name, style(sequence), colour);
  int column = 1;
  for (const std::int32_t page : cache.pages(sequence)) {
    const std::string word = fmt::format(" {}", page);
    if (column + int_size(line) + int_size(word) > kColumns) {
      text += line + "\n";
      line = "      ";
      column = 0;
    }
    line += word;
  }
  return text + line + "\n";
}

}  // namespace

std::string pool_picture(const PagedKvCache& cache, bool colour) {
  const PageAllocator& pool = cache.allocator();
  std::string text = fmt::format("{} page{} of {} token{}: {} in use, {} of them shared, peak {}\n",
                                 pool.n_pages(), pool.n_pages() == 1 ? "" : "s", cache.page_size(),
                                 cache.page_size() == 1 ? "" : "s", pool.n_used(), pool.n_shared(),
                                 pool.peak_used());
  text += grid(cache, colour);
  for (const SequenceId sequence : cache.sequences()) text += table_line(cache, sequence, colour);
  text += "A█ full page of sequence A   A▂ partly full   2█ shared by 2 sequences   · free\n";
  if (holds_pages(cache)) text += "#  held, but in no sequence\n";
  return text;
}

}  // namespace specdec
