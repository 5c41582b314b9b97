// SPDX-License-Identifier: MIT
// call_times: estimates the time of all calls from those that were timed. Each timed call stands for `weight`
// calls; a site's time is the mean of its timed calls times the number of its calls (a ratio estimator: W. G.
// Cochran, Sampling Techniques, 6).
//
// A few very long calls, for example while the host of a virtual machine ran something else, would dominate the
// figures of a site whose calls stand for thousands. So the largest calls of a process are winsorized: of all timed
// calls that stand for more than one call, the eight with the largest weight * time (one in 50, if there are more than
// 400, up to 32; one in nine, if there are fewer than 72) count only as much as the next largest. The price: a call that
// is rare and really is long is underestimated.
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
  double ns = 0;  // weighted
  double weight2 = 0;
  double weight2_ns = 0;
  double weight2_ns2 = 0;

  void add(double call_weight, double call_ns) noexcept;
  void add(const timed_calls& more) noexcept;
  // Replaces a call that was added by one that took `to_ns` instead of `from_ns`.
  void lower(double call_weight, double from_ns, double to_ns) noexcept;
  // Subtracts `ns_each` from every call that was added; the mean keeps at least `least_part` of its value.
  void shorten(double ns_each, double least_part) noexcept;
  double mean() const noexcept { return weight > 0 ? ns / weight : 0; }
};

// The timed calls of one site.
struct site_times {
  timed_calls gets;  // timed allocations
  timed_calls gives;
  double large_ns = 0;     // time of calls whose weight is 1
  double large_calls = 0;  // number of these
  double free_calls = 0;   // frees without those of realloc

  void add(const site_times& more) noexcept;
  // The mean time of calls for small blocks, allocations and frees together; `otherwise` if none was timed.
  double small_mean(double otherwise) const noexcept;
};

struct estimate {
  double value = 0;
  double variance = 0;
};

// The time of `calls` calls. `otherwise`: the mean time per call to assume if no call was timed. The variance is that
// of the mean; that of the number of calls is not in it.
estimate time_of_calls(const timed_calls& timed, double calls, double otherwise);

// Keeps the calls with the largest weight * time of a process.
class largest_calls {
 public:
  static constexpr std::size_t most = 32;

  struct call {
    std::uint32_t site = 0;
    bool release = false;
    double weight = 0;
    double ns = 0;
    double part() const noexcept { return weight * ns; }
  };

  void add(const call& one) noexcept;
  // A call that is to be lowered, and by how much.
  struct excess {
    call of;
    double ns = 0;  // to take off one call's time
  };
  std::vector<excess> over_the_rest() const;

 private:
  std::array<call, most + 1> largest_{};  // descending by part(); the last one sets the level of the others
  std::size_t count_ = 0;                 // calls that were added
};

}  // namespace tarn::profiler
