// SPDX-License-Identifier: MIT
#include "cli/cost/memory_prices.hpp"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/cost/buffer_way.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/show/cli_error.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::cli {

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
// Larger than caches, so that they have no influence; small enough to be measured often.
constexpr std::uint64_t pass_bytes = 32 * mib;
constexpr int passes = 5;

class mapping {
 public:
  explicit mapping(std::size_t size) : size_(size) {
    memory_ = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) {
      throw cli_error(exit_code::refused,
                      fmt::format("cannot map {} to measure the prices: {}", profiler::say_exactly(size),
                                  std::strerror(errno)),
                      "Give the command more memory (ulimit -v, the control group's memory.max).");
    }
    // The price of small pages is measured, also if the system gives huge pages unasked.
    madvise(memory_, size, MADV_NOHUGEPAGE);
  }
  ~mapping() { unmap(); }
  mapping(const mapping&) = delete;
  mapping& operator=(const mapping&) = delete;

  unsigned char* begin() const { return static_cast<unsigned char*>(memory_); }
  void unmap() {
    if (memory_ != MAP_FAILED) munmap(memory_, size_);
    memory_ = MAP_FAILED;
  }

 private:
  std::size_t size_;
  void* memory_;
};

// Writes one byte of every `step`; seconds by `clock`.
double touch(unsigned char* begin, std::size_t size, std::size_t step, double (*clock)()) {
  const double start = clock();
  volatile unsigned char* bytes = begin;
  for (std::size_t offset = 0; offset < size; offset += step) bytes[offset] = 1;
  return clock() - start;
}

// Other programs can only make a pass longer, so take the minimum.
double least(const std::vector<double>& seconds) { return *std::min_element(seconds.begin(), seconds.end()); }

// Touches memory that was never touched before. Returns the seconds for each MiB.
std::vector<double> touch_first(std::uint64_t bytes, std::size_t page) {
  const std::size_t count = bytes / mib;
  std::vector<double> seconds;
  seconds.reserve(count);
  const mapping memory(count * mib);
  for (std::size_t index = 0; index < count; ++index) {
    seconds.push_back(touch(memory.begin() + index * mib, mib, page, monotonic_seconds));
  }
  return seconds;
}

void measure_small_pages(memory_prices& prices, std::size_t size) {
  std::array<std::vector<double>, 3> seconds;
  for (int pass = 0; pass < passes; ++pass) {
    mapping memory(size);
    seconds[0].push_back(touch(memory.begin(), size, prices.page_bytes, thread_seconds));
    std::memset(memory.begin(), 2, size);
    double start = thread_seconds();
    std::memset(memory.begin(), 3, size);
    keep_writes(memory.begin());
    seconds[1].push_back(thread_seconds() - start);
    start = thread_seconds();
    memory.unmap();
    seconds[2].push_back(thread_seconds() - start);
  }
  const double pages = static_cast<double>(size) / static_cast<double>(prices.page_bytes);
  const double mibs = static_cast<double>(size) / static_cast<double>(mib);
  prices.fault_seconds = least(seconds[0]) / pages;
  prices.writing_per_mib = least(seconds[1]) / mibs;
  prices.unmapping_per_mib = least(seconds[2]) / mibs;
}

// Zeroing is nearly all the work of a huge page's fault, while in a small page's fault other work hides it.
void measure_huge_pages(memory_prices& prices, std::size_t size) {
  prices.zeroing_per_mib = prices.writing_per_mib;
  const std::size_t huge = prices.huge_page_bytes;
  if (huge == 0 || size < 2 * huge) return;
  const std::size_t count = size / huge;
  std::vector<double> seconds;
  for (int pass = 0; pass < passes; ++pass) {
    buffer_supply supply(buffer_source::huge, count * huge);
    void* buffer = supply.take();
    if (buffer == nullptr) return;
    seconds.push_back(touch(static_cast<unsigned char*>(buffer), count * huge, huge, thread_seconds));
    supply.give_back(buffer);
  }
  const double price = least(seconds) / static_cast<double>(count);
  // If the system gave small pages instead, there are as many faults, but at a small page's price: then no huge
  // price is known.
  if (price < 8 * prices.fault_seconds) return;
  prices.huge_fault_seconds = price;
  const double mibs = static_cast<double>(huge) / static_cast<double>(mib);
  prices.zeroing_per_mib = std::max(0.0, price - prices.fault_seconds) / mibs;
}

void judge_first_touch(memory_prices& prices, const std::vector<double>& first) {
  const double pages_per_mib = static_cast<double>(mib) / static_cast<double>(prices.page_bytes);
  const double usual = prices.fault_seconds * pages_per_mib;
  double all = 0;
  double costly = 0;
  std::size_t costly_count = 0;
  for (const double seconds : first) {
    all += seconds;
    if (seconds <= costly_factor * usual) continue;
    costly += seconds;
    ++costly_count;
  }
  prices.first_bytes = first.size() * mib;
  prices.costly_bytes = costly_count * mib;
  prices.first_fault_seconds = all / (pages_per_mib * static_cast<double>(first.size()));
  if (costly_count > 0) {
    prices.costly_fault_seconds = costly / (pages_per_mib * static_cast<double>(costly_count));
  }
}

// Calls each(key, member) for every member.
template <class Prices, class Each>
void for_each_price(Prices& prices, const Each& each) {
  each("page_bytes", prices.page_bytes);
  each("huge_page_bytes", prices.huge_page_bytes);
  each("fault_seconds", prices.fault_seconds);
  each("huge_fault_seconds", prices.huge_fault_seconds);
  each("zeroing_seconds_per_mib", prices.zeroing_per_mib);
  each("writing_seconds_per_mib", prices.writing_per_mib);
  each("unmapping_seconds_per_mib", prices.unmapping_per_mib);
  each("first_bytes", prices.first_bytes);
  each("first_fault_seconds", prices.first_fault_seconds);
  each("costly_bytes", prices.costly_bytes);
  each("costly_fault_seconds", prices.costly_fault_seconds);
}

}  // namespace

memory_prices measure_prices(std::uint64_t bytes) {
  const std::uint64_t first_bytes = std::max(bytes / mib, std::uint64_t{1}) * mib;
  const std::uint64_t size = std::min(first_bytes, pass_bytes);
  memory_prices prices;
  prices.page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  prices.huge_page_bytes = huge_page_size();
  // Measured first, while this memory has not been touched.
  const std::vector<double> first = touch_first(first_bytes, prices.page_bytes);
  measure_small_pages(prices, size);
  measure_huge_pages(prices, size);
  judge_first_touch(prices, first);
  return prices;
}

std::string describe_prices(const memory_prices& prices) {
  const double pages_per_mib = static_cast<double>(mib) / static_cast<double>(prices.page_bytes);
  std::string huge = "no huge pages here";
  if (prices.huge_fault_seconds > 0) {
    huge = fmt::format("{} for a huge page of {}", profiler::say_seconds(prices.huge_fault_seconds),
                       profiler::say_exactly(prices.huge_page_bytes));
  }
  return fmt::format(
      "prices: {} for the first write to a page of {} ({} per MiB, {} of it zeroing); {}; unmapping {} per MiB; "
      "writing {} per MiB",
      profiler::say_seconds(prices.fault_seconds), profiler::say_exactly(prices.page_bytes),
      profiler::say_seconds(prices.fault_seconds * pages_per_mib),
      profiler::say_seconds(prices.zeroing_per_mib), huge, profiler::say_seconds(prices.unmapping_per_mib),
      profiler::say_seconds(prices.writing_per_mib));
}

std::string describe_first_touch(const memory_prices& prices) {
  if (static_cast<double>(prices.costly_bytes) <
      smallest_costly_part * static_cast<double>(prices.first_bytes)) {
    return fmt::format("first touch ever: {} per page over {}: the system had this memory ready",
                       profiler::say_seconds(prices.first_fault_seconds),
                       profiler::say_exactly(prices.first_bytes));
  }
  return fmt::format(
      "first touch ever: {} per page in {} of the {} touched first, {:.0f} times the usual "
      "price: memory that the host of this virtual machine had to provide, or other programs had "
      "to release; not included in any other figure",
      profiler::say_seconds(prices.costly_fault_seconds), profiler::say_exactly(prices.costly_bytes),
      profiler::say_exactly(prices.first_bytes), prices.costly_fault_seconds / prices.fault_seconds);
}

nlohmann::json as_json(const memory_prices& prices) {
  nlohmann::json object;
  for_each_price(prices, [&object](const char* key, const auto& value) { object[key] = value; });
  return object;
}

memory_prices prices_from_json(const nlohmann::json& object) {
  memory_prices prices;
  for_each_price(prices, [&object](const char* key, auto& value) { object.at(key).get_to(value); });
  return prices;
}

}  // namespace tarn::cli
