// SPDX-License-Identifier: MIT
#include "engine/slow_calls.hpp"

#include <algorithm>
#include <bit>

#include "base/text.hpp"

namespace tarn::slow_calls {
namespace {

// They double: up to 256 ns, up to 512 ns, …, up to 1.07 s, and longer.
constexpr unsigned shortest_bits = 8;
constexpr unsigned durations = 24;
constinit std::atomic<std::uint64_t> counts[kinds][durations] = {};

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
     "Frees of blocks above 256 KiB that took at most le seconds", &figures::large_frees},
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

void visit(metric_receiver to) {
  figures sums{};
  std::uint64_t calls = 0;
  for (const auto& of_kind : counts)
    for (const auto& count : of_kind) calls += count.load(std::memory_order_relaxed);
  for (unsigned duration = 0; duration < durations && calls != 0; ++duration) {
    for (unsigned k = 0; k < kinds; ++k)
      sums.*figure_of[k] += counts[k][duration].load(std::memory_order_relaxed);
    text_buffer<24> name;
    put_seconds(name, duration);
    table::give(to, name.put('\0').data(), sums);
  }
}

}  // namespace

void add(kind what, std::int64_t start) {
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(os::now_ns() - start, 1));
  const auto bits = static_cast<unsigned>(std::bit_width(ns - 1));
  const unsigned duration = std::min(bits - std::min(bits, shortest_bits), durations - 1);
  counts[static_cast<unsigned>(what)][duration].fetch_add(1, std::memory_order_relaxed);
}

constinit const metric_group metrics = table::group(visit, "le");

}  // namespace tarn::slow_calls
