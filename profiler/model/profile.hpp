// SPDX-License-Identifier: MIT
// profile: what a profile file says, in memory: who allocated, what it cost, and how it lived. The collector makes one,
// the file keeps it, and report, export, diff and advise read it. Plain data.
//
// A site is a call path that allocates: the node of its innermost frame outside the recorder. Counts are estimates where
// the mode samples (the sum of 1/probability over samples) and exact in mode full.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/model/memory_split.hpp"
#include "profiler/model/proof.hpp"

namespace tarn::profiler {

// ---- who ----

struct module_info {
  std::string path;
  std::string build_id;  // lower-case hexadecimal; empty: it has none
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;  // of `start`
};

// A call path; node 0 is the empty one. Invariant: parent < own index.
struct stack_node {
  std::uint32_t parent = 0;   // the path to the caller
  std::uint64_t address = 0;  // the return address in it; symbols are those of address - 1
};

// Derived from a frame's address when a path is shown; in no file.
enum class frame_kind : std::uint8_t {
  native,
  script,      // a line of an interpreted program
  interpreter  // native code of the interpreter, or of what comes with it, on a path with such lines
};

// What one address means: its function, and those it was inlined into, innermost first.
struct source_frame {
  std::string function;  // demangled; "?? (module+0x12ab)" where there is no symbol
  std::string file;
  std::uint32_t line = 0;
  bool inlined = false;  // into the next one
  frame_kind kind = frame_kind::native;
  std::uint64_t address = 0;  // the return address; like `kind`, set by frames_of and in no file
};

enum class type_evidence : std::uint8_t { none, allocator, constructor, vtable };  // best first after none

struct thread_info {
  std::uint64_t id = 0;  // the system's
  std::string name;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;   // 0: it lived to the end
  std::uint32_t process = 0;  // of profile::processes
};

// ---- what ----

// In the file: table "sites", one real column per member of the same name, and integer columns "stack" and "type".
struct site_figures {
  double samples = 0;      // events that the figures rest on
  double allocations = 0;  // successful ones, of all calls that give memory
  double frees = 0;
  double bytes = 0;         // requested, over all time
  double usable_bytes = 0;  // what malloc_usable_size says, likewise
  double freed_bytes = 0;
  double peak_bytes = 0;     // live at once, of this site alone
  double bytes_at_peak = 0;  // live when the whole program's live bytes were highest
  double live = 0;           // at the end: blocks
  double live_bytes = 0;
  double lifetime_ns = 0;    // sum over freed blocks
  double foreign_frees = 0;  // by another thread than the one that allocated
  double lifo_frees = 0;     // of the youngest living block of the thread
  double batch_frees =
      0;  // in a run of frees of its thread, which ended half of what lived of the site, or more
  double callocs = 0;
  double calloc_bytes = 0;
  double reallocs = 0;       // that grew a block of this site
  double realloc_bytes = 0;  // copied or moved by them, at most
  double large = 0;          // blocks of 64 KiB and more
  double large_bytes = 0;
  double faults = 0;          // page faults on this site's blocks, seen or estimated from samples
  double fault_pages = 0;     // pages that they gave (a huge page counts its small ones)
  double kernel_faults = 0;   // of them, taken by the kernel itself, e.g. in read()
  double checked_bytes = 0;   // blocks whose residency was looked at when they were freed, or at the end
  double resident_bytes = 0;  // of checked_bytes, in memory
  double maps = 0;            // mmap calls that the program made here itself
  double mapped_bytes = 0;
  double malloc_ns = 0;  // in malloc and free, from calls that were timed; without the page faults within
  // Of the sampling: how far the figure above may be off has their square roots as its standard error. 0: exact.
  double allocations_variance = 0;
  double bytes_variance = 0;
  double faults_variance = 0;
  double malloc_variance = 0;
  // Of the blocks that were live at the end, where that could be told (meta: leaks).
  double lost = 0;  // nothing led to them any more
  double lost_bytes = 0;
  double indirect = 0;  // only lost blocks led to them
  double indirect_bytes = 0;
};

struct size_count {
  std::uint64_t size = 0;  // exact, or the lower end of a power of two where `exact` is false
  double count = 0;
  bool exact = true;
};

// lifetime: floor(log2(ns)); size: floor(log2(bytes)).
struct lifetime_count {
  std::uint8_t lifetime = 0;
  std::uint8_t size = 0;
  double count = 0;
  double bytes = 0;
};

struct thread_pair {
  std::uint32_t from = 0;  // allocated; indices into profile::threads
  std::uint32_t to = 0;    // freed
  double count = 0;
  double bytes = 0;
};

struct site {
  std::uint32_t stack = 0;
  std::uint32_t process = 0;  // of profile::processes; 0 where sites are joined
  std::string type;           // "" : not known
  type_evidence evidence = type_evidence::none;
  site_figures figures;
  std::vector<size_count> sizes;          // by count, descending
  std::vector<lifetime_count> lifetimes;  // of freed blocks
  std::vector<thread_pair> threads;       // of freed blocks
};

// The state of the whole program at a moment.
struct counter_row {
  std::uint64_t time_ns = 0;  // since the start
  double resident_bytes = 0;
  double live_bytes = 0;
  double live = 0;
  double allocations = 0;  // since the start, as the following
  double frees = 0;
  double faults = 0;       // ru_minflt: all, those of the kernel too
  double seen_faults = 0;  // those the fault events showed
  double major_faults = 0;
  double user_ns = 0;
  double system_ns = 0;
};

// What the machine charges, in ns; measured before the run.
struct price_list {
  double fault = 0;         // first touch of a page, its zeroing included
  double huge_fault = 0;    // likewise of a huge page; 0: none was given
  double costly_fault = 0;  // of memory that a host must first back; 0: none was seen
  double unmap_page = 0;
  double zero_page = 0;
  double malloc_pair = 0;  // a malloc and a free of 64 bytes under the program's malloc
  double timed_call = 0;   // by how much a call seems to take longer when it is timed
};

// What keeps the costs within the time that the process took: estimates and prices times so much. Set by fit_costs.
struct cost_fit {
  double malloc = 1;
  double kernel = 1;
};

// Where the time in malloc of all sites is from: from timed calls, fitted to what samples of the clock say of their sum.
struct malloc_time {
  double clock_part = 0;  // 0: timed calls alone
  double factor = 1;      // of the timed calls' figures
  // Standard errors that all sites share, as parts of their time: of the clock's samples, another one in each recording;
  // and of the way, the same in each.
  double clock_error = 0;
  double systematic_error = 0;
  double ns = 0;  // of all sites
  // Samples of user space, one for each clock_ns of processor time.
  double samples = 0;
  double in_malloc = 0;
  double in_recorder = 0;
  double clock_ns = 0;
};

enum class profile_mode : std::uint8_t { sample, full, faults };

// One process of a merged profile.
struct process_part {
  nlohmann::json meta;  // as its own file has it, figures and prices included
  std::vector<counter_row> counters;
};

struct profile {
  // As in the file: program, arguments, pid, command, start, duration_ns, mode, sample_bytes, fault_period, kernel, page_bytes, thp,
  // allocator, privilege, refused (a list of sentences), tarn_version.
  nlohmann::json meta;
  profile_mode mode = profile_mode::sample;
  price_list prices;
  std::vector<module_info> modules;
  std::vector<stack_node> stacks;                              // [0] is the empty path
  std::map<std::uint64_t, std::vector<source_frame>> symbols;  // by address, innermost first
  std::vector<thread_info> threads;
  std::vector<site> sites;
  std::vector<counter_row> counters;
  memory_history memory;  // what resident memory consisted of; empty where that could not be told
  // Of a merged profile (merge.hpp); empty: the profile is of one process.
  std::vector<process_part> processes;
  // Faults that belong to no live block: stacks, images, the allocator's own; and those the events did not show.
  double other_faults = 0;
  double unseen_faults = 0;
  double recorder_ns = 0;  // processor time that the recorder took within the program's
  cost_fit fit;
  profiler::malloc_time malloc_time;
  double lost_events = 0;
  double unwind_error_rate = 0;  // of stacks that were verified; 0..1
  double unwind_checked = 0;
  proof proven;        // what `tarn prove` has measured; of no rounds: nothing
  std::string damage;  // of the file; empty: none
};

// A profile from a file. What of it cannot be read, or does not fit together, is left out and told in `damage`. Throws
// profile_error where nothing can be shown. store_profile.hpp is the way back. All text in it is printable.
// `detail`: figures leaves out the sizes, lifetimes and threads of sites, which take half of the memory.
enum class profile_detail : std::uint8_t { all, figures };
profile load_profile(const std::string& path, profile_detail detail = profile_detail::all);
// The same, but the sites of a merged profile are those of its processes, one for each where several have it.
profile load_parts(const std::string& path, profile_detail detail = profile_detail::all);

// Takes `meta`, as the file has it, with the figures that stand in it.
void set_meta(profile& p, nlohmann::json meta);

// Replaces all text by what printable() makes of it (profiler/format/printable.hpp). For a profile that is shown; one that
// is looked up in, or stored, keeps its names as they are.
void make_printable(profile& p);

// ---- what it costs: one place, so that totals agree in every view. All in ns ----
//
// A fault costs prices.fault for its first page, and for each further one what makes a huge page cost prices.huge_fault
// (where none was measured, prices.zero_page); every page given costs prices.unmap_page once. costly_fault is no part of
// it: which faults a host had to back first is not known by site.
//
// The kernel's part together is at most the process's system time, and all of it at most its processor time.

struct cost {
  double malloc_ns = 0;  // in malloc and free
  double fault_ns = 0;   // first touches, zeroing included
  double unmap_ns = 0;   // giving pages back
  // Of the sampling, as those of site_figures.
  double malloc_variance = 0;
  double kernel_variance = 0;  // of hidden()
  double malloc_bias = 0;      // standard error that the malloc_ns of all sites and recordings share
  double variance() const noexcept { return malloc_variance + kernel_variance; }
  // That of a figure by itself; variance() is for comparing recordings.
  double whole_variance() const noexcept { return variance() + malloc_bias * malloc_bias; }
  double total() const noexcept { return malloc_ns + fault_ns + unmap_ns; }
  double hidden() const noexcept { return fault_ns + unmap_ns; }  // what a timer around malloc does not see
};
cost cost_of(const profile& p, const site_figures& figures);
cost cost_of_all(const profile& p);  // the sites, and other and unseen faults
// Of the faults outside of sites: what is left of all faults, which are counted, is as uncertain as what sites take.
double other_faults_variance(const profile& p);

// Processor time of the program without the recorder: what all shares are of. 0: not known.
double processor_ns(const profile& p);

// Sets p.fit anew, from the counters and all figures; whoever changes those calls it.
void fit_costs(profile& p);

// Half of the interval in which a figure of that variance lies in 95 of 100 cases.
double margin_of(double variance);

// "?? (module+0x12ab)": what stands for a return address without a symbol; the offset is that in the module's file.
std::string unknown_function(const profile& p, std::uint64_t address);

// Whether a file is an interpreter's, or one of the extensions that come with it.
bool is_interpreter(std::string_view module_path);
// The module that holds the instruction; null: none.
const module_info* module_at(const profile& p, std::uint64_t instruction);

// The frames of a call path, innermost first, inlined ones included; of so many addresses at most.
std::vector<source_frame> frames_of(const profile& p, std::uint32_t stack, std::size_t most = SIZE_MAX);

}  // namespace tarn::profiler
