// SPDX-License-Identifier: MIT
#include "cli/compare/call_tails.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <new>

#include "cli/show/cli_error.hpp"

namespace tarn::cli {

namespace tail = profiler::tail;

namespace {

constexpr double fewest_beyond = 10;

}  // namespace

void call_durations::add(const tail::counted_calls& counted) {
  call_durations more;
  more.buckets_.resize(tail::bucket_count);
  for (std::size_t bucket = 0; bucket < tail::bucket_count; ++bucket) {
    // relaxed: the processes that count have ended
    more.buckets_[bucket] = counted.buckets[bucket].load(std::memory_order_relaxed);
    more.calls_ += more.buckets_[bucket];
  }
  more.worst_ = counted.worst.load(std::memory_order_relaxed);
  add(more);
}

void call_durations::add(const call_durations& more) {
  if (more.calls_ == 0) return;
  buckets_.resize(tail::bucket_count);
  for (std::size_t bucket = 0; bucket < tail::bucket_count; ++bucket)
    buckets_[bucket] += more.buckets_[bucket];
  calls_ += more.calls_;
  worst_ = std::max(worst_, more.worst_);
}

std::optional<double> call_durations::quantile(double share) const {
  const auto all = static_cast<double>(calls_);
  constexpr double rounding = 1e-6;  // of a product that is a whole number
  const double rank = std::ceil(all * share - rounding);
  if (all - rank < fewest_beyond) return std::nullopt;
  double below = 0;
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    below += static_cast<double>(buckets_[bucket]);
    if (below >= rank) return std::min(tail::middle_of(bucket), static_cast<double>(worst_));
  }
  return static_cast<double>(worst_);
}

void call_tails::add(const call_tails& more) {
  for (std::size_t place = 0; place < calls.size(); ++place) calls[place].add(more.calls[place]);
  threads += more.threads;
  by_usage += more.by_usage;
  if (more.refusal != 0) refusal = more.refusal;
  timer_ticks = std::max(timer_ticks, more.timer_ticks);
}

tail_file::tail_file(const tail_settings& settings)
    : library_(settings.library), file_(memfd_create("tarn-tail", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  // A program that shortened the file would end this process by SIGBUS.
  constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  void* const memory =
      file_.number() >= 0 && ftruncate(file_.number(), sizeof(tail::tail_page)) == 0 &&
              fcntl(file_.number(), F_ADD_SEALS, seals) == 0
          ? mmap(nullptr, sizeof(tail::tail_page), PROT_READ | PROT_WRITE, MAP_SHARED, file_.number(), 0)
          : MAP_FAILED;
  if (memory == MAP_FAILED) {
    throw cli_error(exit_code::refused,
                    fmt::format("cannot make memory for the durations of calls: {}", std::strerror(errno)),
                    "Measure without --tail.");
  }
  page_ = static_cast<tail::tail_page*>(memory);
  // The slots are zero, and take no memory until they are used.
  new (&page_->header) tail::tail_header;
  page_->header.source = settings.source;
}

tail_file::~tail_file() {
  if (page_ != nullptr) munmap(page_, sizeof(tail::tail_page));
}

void tail_file::join(environment& variables) const {
  variables.prepend_preload(library_);
  variables.set(tail::page_variable, fmt::format("/proc/{}/fd/{}", getpid(), file_.number()));
}

call_tails tail_file::read() const {
  call_tails result;
  // relaxed: the processes that count have ended
  result.threads = page_->header.threads.load(std::memory_order_relaxed);
  result.by_usage = page_->header.by_usage.load(std::memory_order_relaxed);
  result.refusal = page_->header.refusal.load(std::memory_order_relaxed);
  result.timer_ticks = page_->header.timer_ticks.load(std::memory_order_relaxed);
  const std::size_t used = std::min<std::size_t>(result.threads, tail::slot_count);
  for (std::size_t slot = 0; slot < used; ++slot) {
    for (std::size_t place = 0; place < result.calls.size(); ++place)
      result.calls[place].add(page_->slots[slot].calls[place]);
  }
  return result;
}

}  // namespace tarn::cli
