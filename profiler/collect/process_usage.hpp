// SPDX-License-Identifier: MIT
// process_usage: what the kernel has charged to a process image since its beginning, its memory's peaks, and what its
// small children have used. Owned by the recording of the process, for one thread.
//
// The kernel counts for the whole life of a process, but an image begins with its exec, or with tarn attach: `before`
// is what the figures had by then.
#pragma once

#include <cstdint>

#include "profiler/model/profile.hpp"
#include "profiler/proc/proc_status.hpp"
#include "profiler/record/session.hpp"

namespace tarn::profiler {

// Times are on the raw clock.
struct image_facts {
  std::uint64_t recorded_ns = 0;  // when its recorder began
  usage_figures at_start;         // the process's figures by then
  bool is_forked = false;
  bool is_attached = false;
  std::uint64_t executed_ns = 0;  // its exec; 0: not known
  std::uint64_t started_ns = 0;   // when this process started it; 0: it did not
  bool has_earlier = false;       // an earlier image was recorded
  double earlier_ns = 0;          // the processor time that it has used
  double loading_faults = 0;      // page faults that were seen between executed_ns and recorded_ns
  bool sees_kernel = false;       // and whether those that the kernel takes itself are among them
};

struct image_begin {
  std::uint64_t start_ns = 0;
  usage_figures before;  // the process's figures by then, as far as is known
};

// Where the figures of a process image begin: at its exec, or at the fork that made the process; at the attachment if there was
// one.
image_begin begin_of(const image_facts& image);

class process_usage {
 public:
  // `before`: the process's figures at the image's beginning; `at_start`: when its recorder began.
  explicit process_usage(const usage_figures& before = {}, const usage_figures& at_start = {})
      : before_(before), at_start_(at_start) {}

  // Its figures begin where its recorder began: it was attached, or its exec was not seen.
  bool is_loading_left_out() const { return before_.minor_faults == at_start_.minor_faults; }
  const process_figures& last() const noexcept { return last_; }

  void start_with(const process_figures& now) { last_ = now; }
  void read(const process_figures& now);
  // The process has called exec when these were its figures.
  void end_by_exec(const usage_figures& at_exec);
  // The figures that the process itself reported when it ended.
  void end_by_exit(const usage_figures& at_exit);
  // Reads the kernel's peaks of memory, which cover the process's whole life. Returns that of resident memory; 0: it is of
  // before tarn attach.
  double read_peaks(std::uint32_t process, bool is_attached, bool is_limited);
  void raise_peak(double resident_bytes);
  void set_peak_exact(bool is_exact) noexcept { is_peak_exact_ = is_exact; }
  double peak_resident() const noexcept { return peak_resident_; }

  // A fault before the recorder began; `by_recorder`: on the recorder's own memory.
  void add_early_fault(double weight, bool by_recorder) {
    (by_recorder ? early_own_faults_ : early_faults_) += weight;
  }
  // A small forked child that has ended. `counters`: its last ones; `own_faults`: those that its recorder took.
  void add_child(const process_usage& child, double allocations, double own_faults,
                 const counter_row& counters);

  // The figures since the image's beginning, in its row of counters.
  void fill(counter_row& row) const;
  // Sets result.unseen_faults, and corrects result.other_faults. `page`: null in mode faults.
  void fill_faults(profile& result, const process_page* page, double seen_faults) const;
  void fill(nlohmann::json& meta) const;

 private:
  usage_figures before_;
  usage_figures at_start_;
  process_figures last_;
  double peak_resident_ = 0;
  double peak_address_space_ = 0;  // 0: it has no limit, or was not read
  bool is_peak_exact_ = false;     // peak_resident_ is the kernel's own figure, read at the end
  double early_faults_ = 0;        // before the recorder began, except those on the recorder's memory
  double early_own_faults_ = 0;    // and those
  // Sums over small forked children, which have no file of their own. The model includes what they allocated.
  struct {
    double processes = 0;
    double allocations = 0;
    double own_faults = 0;  // page faults taken by the recorder
    process_counters used;
  } children_;
};

}  // namespace tarn::profiler
