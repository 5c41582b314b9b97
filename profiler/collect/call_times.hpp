// SPDX-License-Identifier: MIT
// call_times: what timed calls say of all calls. Each timed call stands for `weight` calls; the mean of a site's timed
// calls, times the number of its calls, is the site's time (a ratio estimator: W. G. Cochran, Sampling Techniques, 6).
//
// A few calls that take very long, as where the host of a virtual machine has taken the processor away, would decide the
// figures of a site whose calls stand for thousands. So of all calls of a process that stand for more than themselves, the
// eight of the largest part (of fewer than 72 timed calls an eighth) count as the next one does (a winsorized mean). What
// a site does once in a million calls, and what takes long, is too small then.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tarn::profiler {

// Sums over timed calls of one kind at one site.
struct timed_calls {
  double weight = 0;
  double ns = 0;  // weighed
  double weight2 = 0;
  double weight2_ns = 0;
  double weight2_ns2 = 0;

  void add(double call_weight, double call_ns) noexcept;
  void add(const timed_calls& more) noexcept;
  // A call that was added counts as one of less.
  void lower(double call_weight, double from_ns, double to_ns) noexcept;
  // Each call that was added took less by `ns_each`, but no less than `least_part` of the mean.
  void shorten(double ns_each, double least_part) noexcept;
  double mean() const noexcept { return weight > 0 ? ns / weight : 0; }
};

struct estimate {
  double value = 0;
  double variance = 0;
};

// The time of `calls` calls, whose number has `calls_variance`; by `otherwise` where none of them was timed.
estimate time_of_calls(const timed_calls& timed, double calls, double calls_variance, double otherwise);

// The largest parts that single calls have in a process's time.
class largest_calls {
 public:
  static constexpr std::size_t most = 8;

  struct call {
    std::uint32_t site = 0;
    bool release = false;
    double weight = 0;
    double ns = 0;
    double part() const noexcept { return weight * ns; }
  };

  void add(const call& one) noexcept;
  // The calls that are too large, and by how much each part is.
  struct excess {
    call of;
    double ns = 0;  // of one call
  };
  std::vector<excess> over_the_rest() const;

 private:
  std::array<call, most + 1> largest_{};  // by part, descending
  std::size_t count_ = 0;                 // of all that were added
};

}  // namespace tarn::profiler
