// SPDX-License-Identifier: MIT
// profile: the content of a profile file in memory: which call paths allocated, what that cost, and how the blocks
// lived. The collector makes one, the file stores it, and report, export, diff and advise read it. Plain data.
//
// A site is a call path that allocates: the node of its innermost frame outside of the recorder. Counts are
// estimates in mode sample (the sum of 1 / probability over samples), and exact in mode full.
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

// Derived from a frame's address when a path is shown; not stored in files.
enum class frame_kind : std::uint8_t {
  native,
  script,  // a line of an interpreted program, or a function that was compiled at run time
  // On a path with lines of scripts: the interpreter's native code; and code of libraries that the innermost line has called,
  // unless it is known by its lines not to have come with the system or a package.
  interpreter,
  runtime,  // libraries that allocate for their callers: of C and C++, the dynamic linker, and tarn's own
  file      // no function: a file, or memory that is named as one
};

// A source location of an address: its function, or one of those into which it was inlined. An address has a list
// of them, innermost first.
struct source_frame {
  std::string function;  // demangled; "?? (module+0x12ab)" where there is no symbol
  std::string file = {};
  std::uint32_t line = 0;
  bool inlined = false;  // into the next one
  frame_kind kind = frame_kind::native;
  std::uint64_t address = 0;  // the return address; like `kind`, set by frames_of and not stored in files
};

// After none, strongest evidence first.
enum class type_evidence : std::uint8_t { none, allocator, constructor, vtable };

struct thread_info {
  std::uint64_t id = 0;  // the kernel's thread id
  std::string name;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;   // 0: it lived to the end
  std::uint32_t process = 0;  // of profile::processes
};

// ---- what ----

// In the file: table "sites", one real column per member of the same name, and integer columns "stack" and "type".
struct site_figures {
  double samples = 0;      // number of recorded events behind the figures
  double allocations = 0;  // successful calls that allocate
  double frees = 0;
  double bytes = 0;         // requested, over the whole run
  double usable_bytes = 0;  // usable according to malloc_usable_size, over the whole run
  double freed_bytes = 0;
  double peak_bytes = 0;     // highest live bytes of this site alone
  double bytes_at_peak = 0;  // live bytes when the whole program's live bytes were highest
  double live = 0;           // blocks that live at the end
  double live_bytes = 0;
  double earlier_live_bytes = 0;  // at the time growth_from_ns of the meta table
  double lifetime_ns = 0;         // sum over freed blocks
  double foreign_frees = 0;       // by a thread other than the allocating one
  double lifo_frees = 0;          // of the youngest living block of the thread
  // In a run of frees of one thread that freed at least half of the site's living blocks.
  double batch_frees = 0;
  double callocs = 0;
  double calloc_bytes = 0;
  double reallocs = 0;       // calls that grew a block of this site
  double realloc_bytes = 0;  // bytes copied or moved by them, at most
  double large = 0;          // blocks of 64 KiB and more
  double large_bytes = 0;
  double faults = 0;          // page faults on this site's blocks, seen or estimated from samples
  double fault_pages = 0;     // small pages that these faults provided (a huge page counts as many)
  double kernel_faults = 0;   // faults among them that the kernel itself took, e.g. in read()
  double checked_bytes = 0;   // bytes whose residency was checked when their block was freed
  double resident_bytes = 0;  // of checked_bytes, resident
  double maps = 0;            // mmap calls that the program itself made at this site
  double mapped_bytes = 0;
  // In malloc and free, estimated from timed calls; without page faults within the calls.
  double malloc_ns = 0;
  // Variances due to sampling: the square root is the standard error of the figure. 0: the figure is exact.
  double allocations_variance = 0;
  double bytes_variance = 0;
  double live_bytes_variance = 0;
  double faults_variance = 0;
  double malloc_variance = 0;
  // Of the blocks that lived at the end, if that is known (meta: leaks).
  // Unreachable, and not reached from another unreachable block (of a cycle: its first block).
  double lost = 0;
  double lost_bytes = 0;
  double indirect = 0;  // unreachable, but another unreachable block points to them
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
  std::uint32_t from = 0;  // index into profile::threads: the thread that allocated
  std::uint32_t to = 0;    // freed
  double count = 0;
  double bytes = 0;
};

struct site {
  std::uint32_t stack = 0;
  std::uint32_t process = 0;  // index into profile::processes; 0 if sites are joined
  std::string type = {};      // "" : not known
  type_evidence evidence = type_evidence::none;
  site_figures figures = {};
  std::vector<size_count> sizes;               // by count, descending
  std::vector<lifetime_count> lifetimes = {};  // of freed blocks
  std::vector<thread_pair> threads = {};       // of freed blocks
};

// The state of the whole program at one time.
struct counter_row {
  std::uint64_t time_ns = 0;  // since the start
  double resident_bytes = 0;
  double live_bytes = 0;
  double live = 0;
  double allocations = 0;  // total since the start, as all below
  double frees = 0;
  double faults = 0;       // ru_minflt: all minor faults, also those taken in the kernel
  double seen_faults = 0;  // faults that the kernel's events reported
  double major_faults = 0;
  double user_ns = 0;
  double system_ns = 0;
};

// Prices of memory operations on this machine, in ns; measured before the run.
struct price_list {
  double fault = 0;       // first write to a page, including its zeroing
  double huge_fault = 0;  // first write to a huge page; 0: the system gave none
  // First write to memory that the host of a virtual machine has to provide first; 0: none was seen.
  double costly_fault = 0;
  double unmap_page = 0;
  double zero_page = 0;
  double malloc_pair = 0;  // a malloc and a free of 64 bytes under the program's malloc
  double timed_call = 0;   // by how much timing makes a call seem longer
};

// Factors on estimates and prices that keep the costs within the time that the process took. Set by fit_costs.
struct cost_fit {
  double malloc = 1;
  double kernel = 1;
};

// How the time in malloc of all sites was determined: from timed calls, scaled so that their sum agrees with the
// clock samples.
struct malloc_time {
  double clock_part = 0;  // 0: timed calls alone
  double factor = 1;      // scales the figures of timed calls
  // Standard errors that all sites share, as shares of their time. clock_error comes from the clock samples and is
  // independent in each recording; systematic_error comes from the method and is the same in all recordings.
  double clock_error = 0;
  double systematic_error = 0;
  double ns = 0;        // of all sites
  double small_ns = 0;  // the part of it that was multiplied by the factor: calls for blocks below 64 KiB
  // Numbers of clock samples in user space, one per clock_ns of processor time.
  double samples = 0;
  double in_malloc = 0;
  double in_recorder = 0;
  double clock_ns = 0;
};

enum class profile_mode : std::uint8_t { sample, full, faults };

// One process of a merged profile.
struct process_part {
  nlohmann::json meta;  // as in its own file, with figures and prices
  std::vector<counter_row> counters;
};

struct profile {
  // The table meta as in the file: program, arguments, pid, command, start, duration_ns, mode, sample_bytes,
  // fault_period, kernel, page_bytes, thp, allocator, privilege, refused (a list of sentences), tarn_version.
  nlohmann::json meta = {};
  profile_mode mode = profile_mode::sample;
  price_list prices = {};
  std::vector<module_info> modules = {};
  std::vector<stack_node> stacks = {};  // [0]: the empty path
  bool stacks_changed = false;          // addresses of nodes that may be in the file already; not stored
  std::map<std::uint64_t, std::vector<source_frame>> symbols = {};  // by address; innermost first
  std::vector<thread_info> threads = {};
  std::vector<site> sites = {};
  std::vector<counter_row> counters = {};
  memory_history memory = {};  // what resident memory consisted of; empty if not known
  // The processes of a merged profile (merge.hpp); empty: the profile is of one process.
  std::vector<process_part> processes = {};
  // Faults on no living block (stacks, images, the allocator's own memory), and faults that the kernel's events did
  // not report.
  double other_faults = 0;
  double unseen_faults = 0;
  double recorder_ns = 0;  // part of the program's processor time that the recorder took
  cost_fit fit = {};
  profiler::malloc_time malloc_time = {};
  double lost_events = 0;
  double unwind_error_rate = 0;  // share of wrong paths among the verified ones; 0..1
  double unwind_checked = 0;
  proof proven = {};        // results of `tarn prove`; rounds 0: none
  std::string damage = {};  // what is damaged in the file; empty: nothing
};

// Loads a profile. What cannot be read, or is inconsistent, is left out and described in `damage`. Throws
// profile_error if nothing can be shown. store_profile.hpp is the reverse. All its text is printable. `detail`:
// figures leaves out the sizes, lifetimes and threads of sites, which are half of the memory.
enum class profile_detail : std::uint8_t { all, figures };
profile load_profile(const std::string& path, profile_detail detail = profile_detail::all);
// The same, but a merged profile keeps the sites of each process apart, even if several processes have the same
// one.
profile load_parts(const std::string& path, profile_detail detail = profile_detail::all);

// Sets p.meta to the content of the table meta, and the figures that it contains.
void set_meta(profile& p, nlohmann::json meta);

// Replaces all text by printable() of it (profiler/format/printable.hpp). For profiles to be shown; a profile to be
// searched or stored keeps its names.
void make_printable(profile& p);

// ---- what it costs: one place, so that totals agree in every view. All in ns ----
//
// A fault costs prices.fault for its first page. Each further page costs what it adds to the price of a huge page,
// prices.huge_fault (prices.zero_page if that was not measured). Every page costs prices.unmap_page once.
// costly_fault is not included: it is not known which faults needed the host.
//
// The sum of the kernel's part is limited to the process's system time, and the sum of all costs to its processor
// time.

struct cost {
  double malloc_ns = 0;  // in malloc and free
  double fault_ns = 0;   // first writes to pages, zeroing included
  double unmap_ns = 0;   // returning pages to the system
  // Variances due to sampling, as in site_figures.
  double malloc_variance = 0;
  double kernel_variance = 0;  // of hidden()
  double malloc_bias = 0;      // systematic standard error of malloc_ns, common to all sites and recordings
  double variance() const noexcept { return malloc_variance + kernel_variance; }
  // For a single figure. variance() is for comparing recordings, whose common error cancels out.
  double whole_variance() const noexcept { return variance() + malloc_bias * malloc_bias; }
  double total() const noexcept { return malloc_ns + fault_ns + unmap_ns; }
  // Costs that a timer around malloc does not see.
  double hidden() const noexcept { return fault_ns + unmap_ns; }

  cost& operator+=(const cost& more) noexcept;
};
cost cost_of(const profile& p, const site_figures& figures);
cost cost_of_all(const profile& p);  // all sites, and other and unseen faults
// Figures for all sites together of which only the variances, malloc_ns, and the sums that the variances of a part need are set. The
// variances of the sum are not the sums of the sites' variances: cost_of() and the metrics turn these figures into those of the sum.
site_figures sum_with_variances(const profile& p);
// Variance of the number of faults outside of sites: all faults are counted exactly, so their remainder is as
// uncertain as the sum of the sites.
double other_faults_variance(const profile& p);

// Processor time of the program without the recorder, the whole of all shares. 0: not known.
double processor_ns(const profile& p);

// False: of a black box, a core file or pprof, which know what lives and nothing of times and page faults.
bool has_costs(const profile& p);
// What a profile without costs was made from: "a black box".
const char* origin_of(const profile& p);

// Computes p.fit from the counters and all figures; to be called after these have changed.
void fit_costs(profile& p);

// Half the width of the 95 % interval of a figure with this variance, and that in standard errors.
inline constexpr double margin_in_errors = 1.96;
double margin_of(double variance);

// The variances of what lives, of its bytes and blocks, for one site or a sum: that of the samples which live, and of blocks of which
// none does.
double live_bytes_variance(const site_figures& of);
double live_variance(const site_figures& of);
// Of the bytes that lived at the program's peak.
double peak_variance(const site_figures& of);
// Where no sample is left of something, there may be as much as three samples stand for (in 5 % of all cases more).
constexpr double variance_of_none(double of_one_sample) {
  const double most = 3 / margin_in_errors * of_one_sample;
  return most * most;
}

// "?? (module+0x12ab)": the name of a return address without a symbol, with its offset in the module's file.
std::string unknown_function(const profile& p, std::uint64_t address);

// Whether the file belongs to an interpreter, or is one of the extensions that come with it.
bool is_interpreter(std::string_view module_path);
// What the code at a return address in `module` (null: in none) is, on a path with script lines or on another one.
frame_kind kind_of(const module_info* module, std::uint64_t address, bool has_script);
// The module that holds the instruction; null: none.
const module_info* module_at(const profile& p, std::uint64_t instruction);

// The frames of a call path, innermost first, inlined ones included; of the innermost `most` addresses.
std::vector<source_frame> frames_of(const profile& p, std::uint32_t stack, std::size_t most = SIZE_MAX);

}  // namespace tarn::profiler
