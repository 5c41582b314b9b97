// SPDX-License-Identifier: MIT
#include "engine/slow_calls.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "base/text.hpp"
#include "os/sandbox.hpp"
#include "os/syscall.hpp"

namespace tarn::slow_calls {
namespace {

// They double: up to 256 ns, up to 512 ns, …, up to 1.07 s, and longer.
constexpr unsigned shortest_bits = 8;
constexpr unsigned durations = 24;

constexpr unsigned classes = 16;  // of threads
constinit std::atomic<std::uint64_t> counts[classes][kinds][durations] = {};

// As the kernel keeps a thread's name, of 15 characters at most. The byte behind them is 1 here, so that the second word
// of a name is never 0.
using thread_name = std::array<char, 16>;
using name_words = std::array<std::uint64_t, 2>;
constexpr name_words words_of(thread_name name) {
  name.back() = 1;
  return std::bit_cast<name_words>(name);
}
constexpr name_words other = words_of({'o', 't', 'h', 'e', 'r'});

// The classes' names; 0 is what no thread has set yet. Each word is set once, and then stays. So all threads of a name
// find the same class, in any order of their steps, and may leave off between the two words.
constinit std::atomic<std::uint64_t> names[classes][2] = {{other[0], other[1]}};

bool is_or_becomes(std::atomic<std::uint64_t>& word, std::uint64_t value) {
  std::uint64_t found = 0;
  return word.compare_exchange_strong(found, value, std::memory_order_relaxed) || found == value;
}

// The class of the calling thread's name without its number; that of the others if all classes have names already.
unsigned find_class() {
  thread_name name{};
  os::system_call(SYS_prctl, PR_GET_NAME, name.data());
  name.back() = '\0';
  const std::size_t kept = std::string_view(name.data()).find_last_not_of("0123456789-_:/#. ") + 1;
  if (kept == 0) return 0;
  std::fill(name.begin() + kept, name.end(), '\0');
  // They would be written so, and two classes must not have one text.
  std::replace_if(
      name.begin(), name.begin() + kept, [](char c) { return c > 0 && c < ' '; }, '?');
  const name_words words = words_of(name);
  for (unsigned c = 0; c < classes; ++c)
    if (is_or_becomes(names[c][0], words[0]) && is_or_becomes(names[c][1], words[1])) return c;
  return 0;
}

struct calling_thread {
  std::uint32_t calls = 0;
  std::uint32_t its_class = 0;
};
thread_local constinit calling_thread caller;

// Asks for the name at first more often: a thread may get its name after its first calls.
unsigned class_of_caller() {
  const std::uint32_t calls = ++caller.calls;
  if ((std::has_single_bit(calls) || calls % 1024 == 0) && !os::in_sandbox()) caller.its_class = find_class();
  return caller.its_class;
}

struct figures {
  std::uint64_t allocations;
  std::uint64_t large_allocations;
  std::uint64_t frees;
  std::uint64_t large_frees;
};
constexpr std::uint64_t figures::*figure_of[kinds] = {&figures::allocations, &figures::large_allocations,
                                                      &figures::frees, &figures::large_frees};
constexpr metric_kind counter = metric_kind::counter;
constexpr metric_of<figures> rows[] = {
    {"tarn_slow_allocations", counter, metric_unit::none,
     "Allocations of up to 256 KiB that missed the caches and took at most le seconds",
     &figures::allocations},
    {"tarn_slow_large_allocations", counter, metric_unit::none,
     "Allocations above 256 KiB that took at most le seconds", &figures::large_allocations},
    {"tarn_slow_frees", counter, metric_unit::none,
     "Frees of blocks of up to 256 KiB that no cache took at once, and that took at most le seconds",
     &figures::frees},
    {"tarn_slow_large_frees", counter, metric_unit::none,
     "Frees of blocks above 256 KiB, in scopes, or guarded, that took at most le seconds",
     &figures::large_frees},
};
using table = metric_table<rows>;

// The longest time of a duration, as OpenMetrics writes it.
void put_seconds(text_writer& out, unsigned duration) {
  if (duration == durations - 1) {
    out.put("+Inf");
    return;
  }
  constexpr std::uint64_t second = 1'000'000'000;
  const std::uint64_t ns = std::uint64_t{1} << (shortest_bits + duration);
  out.number(ns / second).put('.');
  for (std::uint64_t digit = second / 10; digit != 0; digit /= 10) out.number(ns / digit % 10);
}

void visit_class(metric_receiver to, unsigned of_threads, std::string_view name) {
  figures sums{};
  for (unsigned k = 0; k < kinds; ++k) {
    const auto is_zero = [](const auto& count) { return count.load(std::memory_order_relaxed) == 0; };
    if (std::all_of(counts[of_threads][k], std::end(counts[of_threads][k]), is_zero))
      sums.*figure_of[k] = no_value;
  }
  for (unsigned duration = 0; duration < durations; ++duration) {
    for (unsigned k = 0; k < kinds; ++k)
      if (std::uint64_t& sum = sums.*figure_of[k]; sum != no_value)
        sum += counts[of_threads][k][duration].load(std::memory_order_relaxed);
    text_buffer<64> labels;
    labels.put("thread=\"").put_escaped(name).put("\",le=\"");
    put_seconds(labels, duration);
    table::give(to, labels.put('"').put('\0').data(), sums);
  }
}

void visit(metric_receiver to) {
  for (unsigned c = 0; c < classes; ++c) {
    const name_words words{names[c][0].load(std::memory_order_relaxed),
                           names[c][1].load(std::memory_order_relaxed)};
    if (words[0] == 0 || words[1] == 0) continue;
    auto name = std::bit_cast<thread_name>(words);
    name.back() = '\0';
    visit_class(to, c, name.data());
  }
}

}  // namespace

void add(kind what, std::int64_t start) {
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(os::now_ns() - start, 1));
  const auto bits = static_cast<unsigned>(std::bit_width(ns - 1));
  const unsigned duration = std::min(bits - std::min(bits, shortest_bits), durations - 1);
  counts[class_of_caller()][static_cast<unsigned>(what)][duration].fetch_add(1, std::memory_order_relaxed);
}

constinit const metric_group metrics = table::group(visit);

}  // namespace tarn::slow_calls
