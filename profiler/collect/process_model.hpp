// SPDX-License-Identifier: MIT
// process_model: one process of the recorded program, built from its events: its call paths, sites, living blocks
// and threads. Events come in the order of their times; a page fault is assigned to the block that lives at its
// address at that time.
//
// A fault at an address where no block lives may be caused by the thread's next allocation, as malloc writes to the
// block before it returns it. Such a fault waits for the thread's next event.
//
// In mode sample most blocks are unknown, so a page's fault is shared: each block that is placed on the page gets
// the part that it covers of the page's bytes. The number of faults on the small blocks of all sites together is
// known from their addresses (heap_faults); the parts divide it among the sites (fault_parts). Large blocks are all
// known, and get whole faults.
//
// A sampled block stands for 1/p blocks of its size, where p is the probability of being sampled (Horvitz and
// Thompson 1952). Blocks are sampled independently, so the variance of a sum over blocks is the sum of y^2 (1 - p)
// / p^2 over its terms y.
//
// Invariants: live bytes and blocks are the weighted sum over `blocks_` and the blocks that a realloc is moving. They
// are the sum over all sites, too. (The checks allow rounding errors.) Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "profiler/collect/block_table.hpp"
#include "profiler/collect/call_times.hpp"
#include "profiler/collect/fault_parts.hpp"
#include "profiler/collect/fresh_pages.hpp"
#include "profiler/collect/heap_faults.hpp"
#include "profiler/collect/time_total.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// For short lists in which a few items are looked up most of the time: finds the item that `same` accepts and moves it one place towards the front (transpose heuristic); appends make()
// if there is none.
template <typename Item, typename Same, typename Make>
Item& meet(std::vector<Item>& items, Same same, Make make) {
  for (std::size_t index = 0; index < items.size(); ++index) {
    if (!same(items[index])) continue;
    if (index == 0) return items[0];
    std::swap(items[index], items[index - 1]);
    return items[index - 1];
  }
  items.push_back(make());
  return items.back();
}

// Kinds of the events table; docs/reference/format.md.
enum class event_kind : std::uint8_t {
  malloc = 1,
  calloc = 2,
  aligned = 3,
  operator_new = 4,
  free = 5,
  realloc = 6,
  mmap = 7,
  munmap = 8,
  touch = 9,
  operator_delete = 10
};

// The duration of a call, as far as it is known.
struct call_duration {
  bool is_timed = false;
  bool is_known = false;     // false: the kernel interrupted the call
  bool is_doubtful = false;  // it is not known whether the kernel interrupted the thread
  double ns = 0;
};

struct allocation_event {
  std::uint64_t time_ns = 0;  // when the call ended, if it was timed
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t usable = 0;     // 0: not known
  std::uint64_t alignment = 0;  // likewise
  std::uint32_t node = 0;
  event_kind kind = event_kind::malloc;
  // The block was sampled at the distance model_settings::sample_bytes, halved this often.
  std::uint8_t halvings = 0;
  call_duration took;
};

struct release_event {
  std::uint64_t time_ns = 0;
  std::uint64_t address = 0;
  std::uint64_t checked_pages = 0;
  std::uint64_t resident_pages = 0;
  event_kind kind = event_kind::free;
};

struct fault_event {
  std::uint64_t time_ns = 0;
  std::uint64_t address = 0;
  std::uint64_t instruction = 0;
  std::uint32_t thread = 0;  // the kernel's thread id
  double weight = 1;
  bool in_kernel = false;
};

// At a site: `lost` blocks, which nothing points to, and `indirect` ones, which only lost blocks lead to.
struct lost_blocks {
  std::uint32_t site = 0;
  double lost = 0;
  double lost_bytes = 0;
  double indirect = 0;
  double indirect_bytes = 0;
};

struct model_settings {
  bool full = true;
  double sample_bytes =
      0;  // mean distance between samples, in allocated bytes; halved so often at the start:
  std::uint32_t first_halvings = 0;
  double malloc_pair_ns = 0;  // one malloc and its free; used where no call was timed
  // Cost of timing that is included in a timed call; used until the recorder has measured it.
  double timer_ns = 0;
  double fault_ns = 0;       // cost of a page fault within a call
  double unmap_page_ns = 0;  // cost of returning one page to the system within a free
  double page_bytes = 4096;
  bool join_faults = false;
  std::uint64_t allocator_start = 0;  // where the code of its malloc lies
  std::uint64_t allocator_end = 0;
  std::size_t most_events = 0;  // rows of the events table; 0: none are kept
};

class process_model {
 public:
  explicit process_model(const model_settings& settings);

  std::uint32_t node(std::uint32_t parent, std::uint64_t address);
  // Adds a thread that begins, and returns its index in the table of threads.
  std::uint32_t begin_thread(std::uint32_t id, std::uint64_t time_ns);
  void end_thread(std::uint32_t thread, std::uint64_t time_ns);
  void name_thread(std::uint32_t thread, const std::string& name);
  // The stack of a thread ends at `end`. Not called for the process's first thread.
  void thread_stack(std::uint64_t end);
  void name_thread_by_id(std::uint32_t id, const std::string& name);

  void allocated(std::uint32_t thread, const allocation_event& event);
  void freed(std::uint32_t thread, const release_event& event);
  // The duration of the thread's last free.
  void free_took(std::uint32_t thread, const call_duration& took);
  // The duration measured for a call that does nothing: the cost of timing, which is subtracted from all other
  // calls.
  void nothing_took(const call_duration& took);
  void realloc_begins(std::uint32_t thread, const release_event& event);
  // `recorded` false: the new block is not followed. Address 0 with a size: the realloc failed; address 0 without:
  // it was a free.
  void realloc_ends(std::uint32_t thread, const allocation_event& event, bool recorded);
  void mapped(std::uint32_t thread, std::uint64_t time_ns, std::uint64_t address, std::uint64_t bytes,
              std::uint32_t node);
  void unmapped(std::uint32_t thread, std::uint64_t time_ns, std::uint64_t address, std::uint64_t bytes);
  void fault(const fault_event& event);
  // Mode faults: a fault by the call path `node`, on the mapping named `place`.
  void touched(const fault_event& event, std::uint32_t node, const std::string& place);
  // Drops what waits for a thread's next event; there will be none.
  void settle();

  // A clock sample, one per `ns_each` of processor time, and the code in which the process was.
  enum class code : std::uint8_t { program, malloc, recorder };
  void clock_sample(double ns_each, code in) noexcept;
  const clock_counts& clock() const noexcept { return clock_; }

  // At the end of the process: the unreachable blocks of one site.
  void set_lost(const lost_blocks& blocks);

  // Adds the figures of a forked child at the same call paths. Blocks that the child still had at its end count as
  // freed.
  void absorb(const process_model& child);

  // To be called from time to time. At times that double, the live bytes of all sites are marked: a mark always lies between a
  // quarter and three quarters of the time up to the last call, from which growth at the end is told.
  void pass_time(std::uint64_t time_ns);
  std::uint64_t mark_ns() const noexcept { return marks_ns_[used_mark()]; }

  // Writes everything except meta and modules, as of now.
  void fill(profile& into) const;
  const std::vector<stack_node>& stacks() const noexcept { return stacks_; }
  // The rows of the events table since the last call.
  table take_events();
  void drop_events();  // and stop keeping rows
  std::size_t waiting_events() const noexcept { return event_rows_; }
  bool events_cut() const noexcept { return events_cut_; }
  std::size_t joined_threads() const noexcept { return joined_threads_; }

  // Visits each known living block, with the number of blocks that it stands for.
  template <typename Visit>
  void for_each_living(Visit visit) const {
    blocks_.for_each([this, &visit](const living_block& block) { visit(block, weight_of(block)); });
  }
  // Visits each mapping that the program made itself: start, end, site.
  template <typename Visit>
  void for_each_region(Visit visit) const {
    for (const auto& [start, one] : regions_) visit(start, one.end, one.site);
  }
  // Visits the end of each thread's stack, of ended threads too.
  template <typename Visit>
  void for_each_stack(Visit visit) const {
    for (const std::uint64_t end : stack_ends_) visit(end);
  }
  // The return address of the call of malloc; 0: not known.
  std::uint64_t caller_of(std::uint32_t site) const noexcept {
    return site < sites_.size() ? stacks_[sites_[site].stack].address : 0;
  }
  // Bytes that malloc gave beyond the requested ones at a site, as a share of the requested ones.
  double rounding_of(std::uint32_t site) const;

  double allocations() const noexcept { return allocations_; }
  double frees() const noexcept { return frees_; }
  double requested_bytes() const noexcept { return bytes_; }
  double live_bytes() const noexcept { return live_bytes_; }
  double live_blocks() const noexcept { return live_; }
  double seen_faults() const noexcept { return seen_faults_; }
  double odd_events() const noexcept { return odd_events_; }
  void validate() const;

 private:
  friend class process_model_test_access;

  struct living_site {
    std::uint32_t stack = 0;
    std::string region;            // in mode faults
    std::uint64_t peak_epoch = 0;  // value of peak_epoch_ when live_bytes last changed
    site_figures figures;
    std::array<double, 2> marked{};  // live bytes at marks_ns_
    timed_calls gets;                // timed allocations
    timed_calls gives;
    double large_ns = 0;             // time of calls whose weight is 1
    double large_calls = 0;          // number of these
    double free_calls = 0;           // figures.frees without those of realloc
    fault_parts parts;               // the site's parts in faults of shared pages
    double sampled_allocations = 0;  // recorded allocations whose weight is above 1
    std::vector<size_count> sizes;   // roughly by falling frequency (see meet)
    std::vector<lifetime_count> lifetimes;
    std::vector<thread_pair> threads;
  };
  // What a thread has freed of one site since its last allocation.
  struct freed_part {
    std::uint32_t site = 0;
    double live = 0;  // living blocks of the site before the first of these frees
    double frees = 0;
  };
  struct site_times {
    timed_calls gets;
    timed_calls gives;
    double large_ns = 0;
    double large_calls = 0;

    void add(const site_times& more) noexcept;
    // The mean time of calls for small blocks, allocations and frees together; `otherwise` if none was timed.
    double small_mean(double otherwise) const noexcept;
  };
  static constexpr std::size_t stack_depth = 32;
  struct thread_state {
    // Numbers of the thread's youngest living blocks, newest last.
    std::array<std::uint64_t, stack_depth> youngest{};
    std::uint32_t depth = 0;
    std::vector<freed_part> run;  // frees in a row, without an allocation in between
    std::uint32_t frees_in_run = 0;
    living_block moving;  // the block of a realloc that has begun; address 0: none
    release_event moving_event;
    std::vector<fault_event> waiting;
    // Of the thread's last free, as long as its duration may still arrive.
    std::uint32_t last_release_site = 0;  // + 1; 0: none
    double last_release_weight = 0;       // the calls that its duration stands for
    double last_release_pages = 0;        // that were resident
  };
  struct region {
    std::uint64_t end = 0;
    std::uint64_t number = 0;  // number of the mmap call whose mapping it is part of
    std::uint32_t site = 0;
  };

  std::size_t used_mark() const noexcept { return 4 * marks_ns_[1] <= 3 * passed_ns_ ? 1 : 0; }
  double weight_of(std::uint64_t size, std::uint64_t halvings) const;
  double weight_of(const living_block& block) const { return weight_of(block.size, block.halvings); }
  // The mean distance of samples by now: the largest that a sample told.
  double distance_now() const noexcept;
  std::uint32_t site_of(std::uint32_t node);
  void add_block(std::uint32_t thread, const allocation_event& event, std::uint64_t old_number);
  void remove_block(std::uint32_t thread, const living_block& block, const release_event& event);
  void change_live(living_site& site, double blocks, double bytes);
  void count_size(living_site& site, std::uint64_t size, double weight);
  void count_lifetime(living_site& site, const living_block& block, std::uint64_t lifetime_ns, double weight);
  void count_pair(living_site& site, std::uint32_t from, std::uint32_t to, double bytes, double weight);
  void count_run(thread_state& thread, std::uint32_t site, double live, double weight);
  double batch_frees(const thread_state& thread, const freed_part& part) const;
  void end_run(thread_state& thread);
  bool was_youngest(thread_state& thread, std::uint64_t number);
  bool is_for(const fault_event& event, const living_block& block) const;
  bool join(const fault_event& event);
  void count_fault(living_site& site, const fault_event& event);
  void count_block_fault(living_block& block, const fault_event& event);
  std::uint64_t space_of(const living_block& block) const;
  void count_part(living_block& block, std::uint64_t page, double faults);
  void share_page(const fault_event& event);
  void share_fresh_pages(living_block& block, const call_duration& took);
  // Returns how many page faults happened in the allocation call.
  double resolve_waiting(thread_state& thread, const living_block* block, const call_duration& took);
  void count_get(std::uint32_t site, double weight, const call_duration& took, double faults);
  void count_call(std::uint32_t site, bool release, double weight, double ns);
  double time_weight_of(const living_block& block) const;
  double faults_of_call(const call_duration& took, double weight, double seen) const;
  double own_time(const call_duration& took, double kernel_ns) const;
  double timer_ns() const;
  std::vector<site_times> times_of_sites() const;
  void fill_timed(profile& into) const;
  void fill_times(profile& into) const;
  void fill_variances(profile& into) const;
  void fill_shared_faults(profile& into) const;
  void drop_moving(std::uint32_t thread);
  void join_ended_threads();
  void check() const;
  void put_event(std::uint64_t time_ns, std::uint32_t thread, event_kind kind, std::uint64_t block,
                 std::uint64_t size, std::uint32_t node, std::uint64_t extra);
  void put_touch(std::uint64_t time_ns, const living_block& block);

  model_settings settings_;
  std::vector<stack_node> stacks_{1};
  std::vector<std::uint32_t> node_table_;    // open addressing over stacks_; 0 is empty
  std::vector<std::uint32_t> site_of_node_;  // + 1
  std::vector<living_site> sites_;
  std::map<std::pair<std::uint32_t, std::string>, std::uint32_t> site_of_region_;
  std::vector<thread_info> threads_;
  std::vector<thread_state> thread_states_;
  std::unordered_map<std::uint32_t, std::uint32_t> thread_of_id_;
  std::vector<std::uint32_t> free_threads_;  // rows of threads_ and thread_states_ that are not used
  std::size_t ended_threads_ = 0;            // rows of threads_ with an end
  std::size_t joined_threads_ = 0;           // ended threads that share one row
  block_table blocks_;
  std::map<std::uint64_t, region> regions_;
  // The high ends of all threads' stacks, at most most_threads; libc keeps those of ended threads for new ones.
  std::set<std::uint64_t> stack_ends_;

  std::array<std::uint64_t, 2> marks_ns_{};  // the older one first
  std::uint64_t passed_ns_ = 0;
  std::uint64_t fewest_halvings_;
  std::uint64_t last_number_ = 0;
  std::uint64_t peak_epoch_ = 0;
  double peak_bytes_ = 0;
  double allocations_ = 0;
  double frees_ = 0;
  double bytes_ = 0;
  double live_ = 0;
  double live_bytes_ = 0;
  double seen_faults_ = 0;
  double seen_squares_ = 0;  // sum of the squares of the faults' weights
  double joined_faults_ = 0;
  double odd_events_ = 0;  // allocations at the address of a living block, or at 0; reallocs without an end
  largest_calls largest_calls_;
  timed_calls nothing_;
  clock_counts clock_;
  fresh_pages fresh_pages_;
  heap_faults heap_faults_;

  std::size_t event_rows_ = 0;
  std::size_t all_event_rows_ = 0;
  bool events_cut_ = false;
  std::array<integers, 7> event_columns_;
};

}  // namespace tarn::profiler
