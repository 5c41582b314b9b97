// SPDX-License-Identifier: MIT
// process_model: one process of the recorded program, built from its events: its call paths, sites, living blocks
// and threads. Events come in the order of their times; a page fault is assigned to the block that lives at its
// address at that time (fault_counts).
//
// Invariants: live bytes and blocks of the sites are the weighted sum over `blocks_` and the blocks that a realloc is moving.
// (The check allows rounding errors.) Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "profiler/collect/block_table.hpp"
#include "profiler/collect/block_weights.hpp"
#include "profiler/collect/event_table.hpp"
#include "profiler/collect/fault_counts.hpp"
#include "profiler/collect/malloc_times.hpp"
#include "profiler/collect/model_events.hpp"
#include "profiler/collect/site_table.hpp"
#include "profiler/collect/thread_frees.hpp"
#include "profiler/collect/thread_table.hpp"
#include "profiler/model/call_paths.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

class process_model {
 public:
  using code = malloc_times::code;

  explicit process_model(const model_settings& settings);

  // The node of `address` below `parent`; beyond the limit on nodes, that of `address` without callers.
  std::uint32_t node(std::uint32_t parent, std::uint64_t address);
  // Adds a thread that begins, and returns its index in the table of threads.
  std::uint32_t begin_thread(std::uint32_t id, std::uint64_t time_ns);
  void end_thread(std::uint32_t thread, std::uint64_t time_ns);
  void name_thread(std::uint32_t thread, const std::string& name) { threads_.name(thread, name); }
  // The stack of a thread ends at `end`. Not called for the process's first thread.
  void thread_stack(std::uint64_t end) { threads_.add_stack(end); }
  void name_thread_by_id(std::uint32_t id, const std::string& name) { threads_.name_by_id(id, name); }

  void allocated(std::uint32_t thread, const allocation_event& event);
  void freed(std::uint32_t thread, const release_event& event);
  // The duration of the thread's last free.
  void free_took(std::uint32_t thread, const call_duration& took);
  // The duration measured for a call that does nothing: the cost of timing, which is subtracted from all other
  // calls.
  void nothing_took(const call_duration& took) { times_.count_nothing(took); }
  void realloc_begins(std::uint32_t thread, const release_event& event);
  // `recorded` false: the new block is not followed. Address 0 with a size: the realloc failed; address 0 without:
  // it was a free.
  void realloc_ends(std::uint32_t thread, const allocation_event& event, bool recorded);
  void mapped(std::uint32_t thread, std::uint64_t time_ns, std::uint64_t address, std::uint64_t bytes,
              std::uint32_t node);
  void unmapped(std::uint32_t thread, std::uint64_t time_ns, std::uint64_t address, std::uint64_t bytes);
  // The thread's last unmapped(), if it was of this address, did not happen.
  void unmap_refused(std::uint32_t thread, std::uint64_t time_ns, std::uint64_t address);
  void fault(const fault_event& event);
  // Mode faults: a fault by the call path `node`, on the mapping named `place`.
  void touched(const fault_event& event, std::uint32_t node, const std::string& place);
  // Drops what waits for a thread's next event; there will be none.
  void finish_events();

  // A clock sample, one per `ns_each` of processor time, and the code in which the process was.
  void clock_sample(double ns_each, code in) noexcept { times_.count_clock(ns_each, in); }
  const clock_counts& clock() const noexcept { return times_.clock(); }

  // At the end of the process: the unreachable blocks of one site.
  void set_lost(const lost_blocks& blocks) { sites_.set_lost(blocks); }

  // Adds the figures of a forked child at the same call paths. Blocks that the child still had at its end count as
  // freed.
  void absorb(const process_model& child);

  // To be called from time to time (site_table).
  void pass_time(std::uint64_t time_ns) { sites_.pass_time(time_ns); }
  std::uint64_t mark_ns() const noexcept { return sites_.mark_ns(); }

  // Writes everything except meta and modules, as of now.
  void fill(profile& into) const;
  const std::vector<stack_node>& stacks() const noexcept { return paths_.nodes(); }
  // The rows of the events table since the last call.
  table take_events() { return events_.take(); }
  void drop_events() { events_.drop(); }  // and stop keeping rows
  std::size_t waiting_events() const noexcept { return events_.waiting(); }
  bool events_cut() const noexcept { return events_.is_cut(); }
  std::size_t joined_threads() const noexcept { return threads_.joined(); }

  // Allocations and mappings whose callers are left out, as there are more call paths than are kept.
  double without_callers() const noexcept { return without_callers_; }
  std::size_t known_blocks() const noexcept { return blocks_.size(); }
  // Visits each known living block, with the number of blocks that it stands for.
  template <class Visit>
  void for_each_living(Visit visit) const {
    blocks_.for_each([this, &visit](const living_block& block) { visit(block, weights_.of(block)); });
  }
  // Visits each mapping that the program made itself: start, end, site.
  template <class Visit>
  void for_each_region(Visit visit) const {
    mappings_.for_each([&visit](std::uint64_t start, std::uint64_t end, const own_mapping& one) {
      visit(start, end, one.site);
    });
  }
  // Visits the end of each thread's stack, of ended threads too.
  template <class Visit>
  void for_each_stack(Visit visit) const {
    for (const std::uint64_t end : threads_.stack_ends()) visit(end);
  }
  // The return address of the call of malloc; 0: not known.
  std::uint64_t caller_of(std::uint32_t site) const noexcept {
    return site < sites_.size() ? stacks()[sites_[site].stack].address : 0;
  }
  // Bytes that malloc gave beyond the requested ones at a site, as a share of the requested ones.
  double rounding_of(std::uint32_t site) const { return sites_[site].rounding(); }

  double allocations() const noexcept { return allocations_; }
  double frees() const noexcept { return frees_; }
  double requested_bytes() const noexcept { return bytes_; }
  double live_bytes() const noexcept { return sites_.live_bytes(); }
  double live_blocks() const noexcept { return sites_.live_blocks(); }
  double seen_faults() const noexcept { return faults_.seen(); }
  double odd_events() const noexcept { return odd_events_; }
  void validate() const;

 private:
  friend class process_model_test_access;

  struct mapped_part {
    own_mapping mapping;
    std::uint64_t from, to;
  };

  // What is known of a thread between its events.
  struct thread_state {
    youngest_blocks youngest;
    free_run run;
    living_block moving;  // the block of a realloc that has begun; address 0: none
    release_event moving_event;
    std::vector<fault_event> waiting;
    // Of the thread's last free, as long as its duration may still arrive.
    std::uint32_t last_release_site = 0;  // + 1; 0: none
    double last_release_weight = 0;       // the calls that its duration stands for
    double last_release_pages = 0;        // that were resident
    std::uint64_t last_unmapped = 0;
    std::vector<mapped_part> last_unmapped_parts;
  };

  known_memory memory() noexcept { return {blocks_, mappings_, sites_, weights_}; }
  void add_block(std::uint32_t thread, const allocation_event& event, std::uint64_t old_number);
  // Parts of add_block, at each event.
  // The free of an older block at the new one's address was not recorded.
  void end_odd_block(const allocation_event& event);
  void count_block(living_site& site, const allocation_event& event, double weight);
  void remove_block(std::uint32_t thread, const living_block& block, const release_event& event);
  void drop_moving(std::uint32_t thread);
  void end_run(thread_state& thread);
  std::uint32_t node_without_callers(std::uint64_t address);
  // The site at the end of the call path `node`.
  std::uint32_t site_of(std::uint32_t node, double events);
  void join_ended_threads();
  void check() const;

  model_settings settings_;
  block_weights weights_;
  call_paths paths_;
  site_table sites_;
  thread_table threads_;
  std::vector<thread_state> thread_states_;  // for each row of threads_
  block_table blocks_;
  range_map<own_mapping> mappings_;  // that the program has made itself
  malloc_times times_;
  fault_counts faults_;
  event_table events_;
  std::uint64_t last_number_ = 0;
  double allocations_ = 0;
  double frees_ = 0;
  double bytes_ = 0;
  double without_callers_ = 0;
  double odd_events_ = 0;  // allocations at the address of a living block, or at 0; reallocs without an end
};

}  // namespace tarn::profiler
