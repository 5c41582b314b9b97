// SPDX-License-Identifier: MIT
// The rules about the time in malloc and free themselves.
#include <algorithm>
#include <map>
#include <set>

#include "profiler/analyze/advice_rules.hpp"
#include "profiler/analyze/function_name.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::profiler {

namespace {

// Largest number of frames between an allocation and the constructor.
constexpr std::size_t deepest_constructor = 24;
// Cost of an allocation and its free in a pool, and in an arena: cycles of docs/how-to/which-pool.md at 2.6 GHz, in ns;
// and the largest share of the time of the program's malloc.
constexpr double pool_pair_ns = 2.0;
constexpr double pool_part = 0.6;
constexpr double arena_pair_ns = 1.2;
constexpr double arena_part = 0.4;
// Remaining time with tarn's malloc: 0.68 of glibc's for a hot pair of calls, a third of it over the allocator
// workloads. Whole programs saved between nothing and twice the estimate.
constexpr double tarn_part = 0.6;  // of glibc's
constexpr double tarn_memory_part = 0.08;
constexpr double tarn_kept_part = 0.8;  // of the pages that glibc gives back and faults in again

constexpr double fewest_allocations = 10000;
constexpr double largest_pooled = 8192;
constexpr double one_size = 0.8;       // share of the allocations
constexpr double foreign = 0.05;       // of the frees: more is "across threads"
constexpr double in_batches = 0.8;     // of the frees
constexpr double fewest_samples = 30;  // with few samples, each free seems to end all blocks of its place

bool is_node(const std::string& type) {
  for (const char* part : {"_Rb_tree_node<", "_List_node<", "_Hash_node<", "_Fwd_list_node<", "__tree_node<",
                           "__list_node<", "__hash_node<"}) {
    if (type.find(part) != std::string::npos) return true;
  }
  return false;
}

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string pool_change(const site_group& group, bool across) {
  const std::string type = group.type.empty() ? "T" : group.type;
  if (is_node(group.type)) {
    return "#include <tarn/pooled.hpp>\n"
           "give the container tarn::pooled_allocator<value_type> as its allocator";
  }
  if (group.type.empty()) {
    return "#include <tarn/pool.hpp>\n"
           "T* one = tarn::pool_of<T>().create(…);  tarn::pool_of<T>().destroy(one);  // T: the struct of " +
           say_bytes(static_cast<double>(group.sizes.front().size)) + " made here";
  }
  if (across) {
    return "#include <tarn/pool.hpp>\n"
           "static tarn::object_pool<" +
           type +
           "> pool;  // or, without changing callers:\n"
           "struct " +
           type + " : tarn::pooled<" + type + "> { … };  // <tarn/pooled.hpp>";
  }
  return "#include <tarn/pooled.hpp>\n"
         "struct " +
         type + " : tarn::pooled<" + type +
         "> { … };\n"
         "// or tarn::local_pool<" +
         type + "> where one function or request owns them: <tarn/pool.hpp>";
}

// Whether the sizes are those of growing arrays: each size of a chain is about twice the one before.
bool sizes_double(const site_group& group) {
  std::vector<double> sizes;
  double covered = 0;
  for (const size_count& each : group.sizes) {
    if (each.size == 0) continue;
    sizes.push_back(static_cast<double>(each.size));
    covered += each.count;
  }
  if (sizes.size() < 3 || covered < 0.7 * group.sum.allocations) return false;
  std::sort(sizes.begin(), sizes.end());
  std::size_t doubled = 0;
  for (std::size_t index = 1; index < sizes.size(); ++index) {
    const double ratio = sizes[index] / sizes[index - 1];
    if (ratio > 1.3 && ratio < 2.3) ++doubled;
  }
  return 10 * doubled >= 7 * (sizes.size() - 1);
}

bool grows_by_name(const site_group& group) {
  for (const std::string& function : group.functions) {
    const std::string name = plain_name(function);
    for (const char* part :
         {"::_M_realloc_", "::_M_mutate", "::_M_default_append", "::_M_fill_insert", "::_M_range_insert",
          "::_M_append", "::_M_replace", "::__push_back_slow_path", "::__append", "::push_back"}) {
      if (name.find(part) != std::string::npos) return true;
    }
  }
  return false;
}

// How many arrays were grown, and the figures of their last blocks: the counts decrease from the first size of a
// chain on.
struct growth {
  double chains = 0;
  double final_bytes = 0;
};
growth growth_of(const site_group& group) {
  std::vector<size_count> sizes = group.sizes;
  std::sort(sizes.begin(), sizes.end(),
            [](const size_count& a, const size_count& b) { return a.size < b.size; });
  growth found;
  for (std::size_t index = 0; index < sizes.size(); ++index) {
    found.chains = std::max(found.chains, sizes[index].count);
    const double next = index + 1 < sizes.size() ? sizes[index + 1].count : 0;
    found.final_bytes += std::max(0.0, sizes[index].count - next) * static_cast<double>(sizes[index].size);
  }
  return found;
}

struct construction {
  std::set<std::string> places;
  std::vector<std::uint32_t> sites;
  double total_ns = 0;
  double made = 0;  // allocations of its most frequent site: at least one per object
  double peak_bytes = 0;
  double lifetime_ns = 0;
  double frees = 0;
  double foreign_frees = 0;
  double samples = 0;
  std::string where;
};

// "ns::parser" of "ns::parser::parser", else "".
std::string constructed_class(const source_frame& frame) {
  const std::string name = plain_name(frame.function);
  const std::size_t end = name.rfind("::");
  if (end == std::string::npos || name.starts_with("std::")) return {};
  const std::string class_name = name.substr(0, end);
  const std::size_t begin = class_name.rfind("::");
  const std::string last = begin == std::string::npos ? class_name : class_name.substr(begin + 2);
  return last == name.substr(end + 2) ? class_name : std::string();
}

void add_site(construction& into, const profile& p, std::uint32_t index, const source_frame& innermost) {
  const site_figures& f = p.sites[index].figures;
  into.places.insert(innermost.function + ":" + std::to_string(innermost.line));
  into.sites.push_back(index);
  into.total_ns += cost_of(p, f).total();
  into.made = std::max(into.made, f.allocations);
  into.peak_bytes += f.peak_bytes;
  into.lifetime_ns += f.lifetime_ns;
  into.frees += f.frees;
  into.foreign_frees += f.foreign_frees;
  into.samples += f.samples;
}

std::map<std::string, construction> find_constructions(const profile& p) {
  std::map<std::string, construction> found;
  for (std::uint32_t index = 0; index < p.sites.size(); ++index) {
    const std::vector<source_frame> frames = frames_of(p, p.sites[index].stack, deepest_constructor);
    for (std::size_t depth = 0; depth < std::min(frames.size(), deepest_constructor); ++depth) {
      const std::string name = constructed_class(frames[depth]);
      if (name.empty()) continue;
      construction& one = found[name];
      if (one.where.empty()) one.where = say_place(frames[depth]);
      add_site(one, p, index, frames.front());
      break;
    }
  }
  return found;
}

}  // namespace

std::optional<advice> advise_pool(const advice_facts& facts, const site_group& group) {
  const site_figures& f = group.sum;
  if (f.allocations < fewest_allocations || group.sizes.empty() || group.in_array_container())
    return std::nullopt;
  const size_count& most = group.sizes.front();
  const auto size = static_cast<double>(most.size);
  if (!most.exact || most.count < one_size * f.allocations || size > largest_pooled) return std::nullopt;
  // Blocks that are never freed are made once, so a pool would have nothing to reuse.
  if (f.frees < 0.5 * f.allocations) return std::nullopt;
  const bool across = f.foreign_frees >= foreign * f.frees;
  const double pair = std::min(pool_pair_ns, pool_part * facts.p.prices.malloc_pair);
  advice one = for_group(across ? advice_kind::object_pool : advice_kind::typed_pool, group);
  one.memory_bytes = f.peak_bytes;
  set_saving(one, facts, group.charged.malloc_ns - f.allocations * pair, f.samples);
  const std::string what = group.type.empty() ? "these blocks of " + say_bytes(size) : group.type;
  one.headline = std::string(across ? "An object pool" : "A typed pool") + " for " + what;
  one.reason =
      across
          ? "Many objects of one size are freed by other threads than those that allocate them; a pool "
            "passes them on in whole magazines."
          : "Many objects of one size come and go in the same thread; a pool's hit is three to six cycles.";
  one.change = pool_change(group, across);
  one.evidence = {say_count(f.allocations) + " allocations, " + say_share(share(most.count, f.allocations)) +
                      " of them of " + say_bytes(size) + "; " + say_bytes(f.peak_bytes) + " at once",
                  say_share(share(f.foreign_frees, f.frees)) + " of the frees by another thread, " +
                      say_share(share(f.lifo_frees, f.frees)) + " of the youngest block",
                  say_time(group.charged.malloc_ns) + " in malloc and free; a pool's pair takes " +
                      say_time(pair) + ", malloc's " + say_time(facts.p.prices.malloc_pair)};
  return one;
}

std::vector<advice> advise_arenas(const advice_facts& facts) {
  // Objects that die together are usually allocated in one source file: a parser, a request.
  std::map<std::string, std::vector<const site_group*>> files;
  for (const site_group& group : facts.groups) {
    const site_figures& f = group.sum;
    if (f.frees < fewest_allocations || f.batch_frees < in_batches * f.frees) continue;
    if (facts.p.mode == profile_mode::sample && f.samples < fewest_samples) continue;
    if (f.foreign_frees >= foreign * f.frees || f.frees < 0.9 * f.allocations || group.mean_bytes() > 65536)
      continue;
    files[group.place.file.empty() ? group.place.function : group.place.file].push_back(&group);
  }
  std::vector<advice> found;
  for (const auto& [file, groups] : files) {
    advice one = for_group(advice_kind::arena, *groups.front());
    one.sites.clear();
    one.type = groups.size() == 1 ? groups.front()->type : std::string();
    double saving = 0, allocations = 0, batch = 0, frees = 0, peak = 0, samples = 0, spent = 0;
    const double pair = std::min(arena_pair_ns, arena_part * facts.p.prices.malloc_pair);
    for (const site_group* group : groups) {
      const site_figures& f = group->sum;
      one.sites.insert(one.sites.end(), group->sites.begin(), group->sites.end());
      saving += group->charged.malloc_ns - f.allocations * pair;
      spent += group->charged.malloc_ns;
      allocations += f.allocations;
      batch += f.batch_frees;
      frees += f.frees;
      peak += f.peak_bytes;
      samples += f.samples;
    }
    one.memory_bytes = peak;
    set_saving(one, facts, saving, samples);
    one.headline = "An arena for objects that are created and freed together at " + one.place;
    one.reason =
        "The blocks are freed one after another, as at the end of a tree or a request; an arena "
        "frees all of them at once.";
    one.change =
        "#include <tarn/resources.hpp>\n"
        "tarn::arena arena;  // one per tree or request; std::pmr containers take tarn::arena_resource(arena)\n"
        "auto* node = arena.create<T>(…);  // no delete: the arena's end frees all";
    one.evidence = {say_count(allocations) + " allocations at " +
                        say_count(static_cast<double>(groups.size())) +
                        (groups.size() == 1 ? " place" : " places") + ", " + say_share(share(batch, frees)) +
                        " of the frees in runs that end most of what lives",
                    say_time(spent) + " in malloc and free; an arena's pair takes " + say_time(pair)};
    found.push_back(std::move(one));
  }
  return found;
}

std::optional<advice> advise_reserve(const advice_facts& facts, const site_group& group) {
  const site_figures& f = group.sum;
  const bool by_realloc = f.reallocs >= 0.3 * f.allocations && f.reallocs >= 1000;
  const bool by_copy = !by_realloc && f.allocations >= 1000 && grows_by_name(group) && sizes_double(group);
  if (!by_realloc && !by_copy) return std::nullopt;
  const growth grown = growth_of(group);
  const double calls =
      by_realloc ? std::min(f.reallocs, f.allocations) : std::max(0.0, f.allocations - grown.chains);
  const double copied = by_realloc ? f.realloc_bytes : std::max(0.0, f.bytes - grown.final_bytes);
  const double copy_ns = copied * facts.p.prices.zero_page / facts.page_bytes;
  const double pages = group.again(facts.page_bytes) * share(copied, f.bytes);
  const double saving =
      group.charged.malloc_ns * share(calls, f.allocations) + copy_ns + pages * facts.first_touch_ns();
  advice one = for_group(advice_kind::reserve, group);
  set_saving(one, facts, saving, f.samples);
  one.headline = "Reserve the final size: this block grows step by step";
  one.reason =
      by_realloc ? "realloc enlarges the same blocks again and again."
                 : "Each growth allocates a block of about twice the size, copies the content and frees the "
                   "old block.";
  one.change =
      by_realloc
          ? "ask for the final size at once, or double the size at each growth"
          : "call reserve(n) before the loop that fills the container; keep a container that is filled "
            "again and clear() it";
  one.evidence = {
      by_realloc ? say_count(f.reallocs) + " growing reallocs of " + say_count(f.allocations) + " allocations"
                 : say_count(f.allocations) + " allocations for about " + say_count(grown.chains) +
                       " arrays: " + say_count(calls) + " were outgrown",
      "about " + say_bytes(copied) + " copied, " + say_time(group.charged.malloc_ns) +
          " in malloc and free, " + say_count(pages) + " pages faulted in for blocks that were outgrown"};
  return one;
}

std::vector<advice> advise_recyclers(const advice_facts& facts) {
  std::vector<advice> found;
  for (const auto& [name, one] : find_constructions(facts.p)) {
    if (one.places.size() < 2 || one.made < 1000 || one.frees <= 0) continue;
    const double alive = one.peak_bytes;
    double bytes = 0;
    for (const std::uint32_t index : one.sites) bytes += facts.p.sites[index].figures.bytes;
    // Few objects live at a time, and not for long: otherwise a new one finds none to reuse.
    if (alive > 0.05 * bytes || one.lifetime_ns / one.frees > 0.05 * facts.duration_ns) continue;
    advice next;
    next.kind = advice_kind::recycler;
    next.sites = one.sites;
    std::stable_sort(next.sites.begin(), next.sites.end(), [&facts](std::uint32_t a, std::uint32_t b) {
      return cost_of(facts.p, facts.p.sites[a].figures).total() >
             cost_of(facts.p, facts.p.sites[b].figures).total();
    });
    next.site = next.sites.front();
    next.type = name;
    next.place = one.where;
    next.memory_bytes = alive;
    // Other work of the constructor is saved as well, but not known here.
    set_saving(next, facts, one.total_ns, one.samples);
    next.headline = "Recycle objects of " + name;
    next.reason =
        "Its constructor allocates at several places, and the objects are short-lived; kept "
        "objects are ready at once.";
    next.change =
        "#include <tarn/recycler.hpp>\n"
        "static tarn::recycler<" +
        name +
        "> objects;\n"
        "auto one = objects.get();  // reset() in its hooks";
    next.evidence = {say_count(static_cast<double>(one.places.size())) + " places below its constructor, " +
                         say_count(one.made) + " objects at most, " + say_time(one.lifetime_ns / one.frees) +
                         " old on average",
                     say_time(one.total_ns) +
                         " in malloc, free and page faults; the constructor's own time is saved in addition"};
    found.push_back(std::move(next));
  }
  return found;
}

std::optional<advice> advise_allocator(const advice_facts& facts) {
  if (!facts.glibc) return std::nullopt;
  double calls = 0;
  double samples = 0;
  double largest = 0;
  double allocations = 0;
  for (const site_group& group : facts.groups) {
    calls += group.charged.malloc_ns;
    samples += group.sum.samples;
    allocations += group.sum.allocations;
    largest = std::max(largest, group.charged.malloc_ns);
  }
  // tarn keeps up to 256 MiB of freed memory.
  const double again = facts.peak_bytes <= 0x1p28 ? refaults_of(facts).pages : 0;
  if (calls <= 0) return std::nullopt;
  advice one;
  one.kind = advice_kind::allocator;
  if (!facts.groups.empty()) one.site = facts.groups.front().sites.front();
  one.memory_bytes = tarn_memory_part * facts.peak_bytes;
  const double fault_ns = tarn_kept_part * again * facts.first_touch_ns();
  set_saving(one, facts, calls * (1 - tarn_part) + fault_ns, samples, fault_ns);
  one.headline = "Run it on another malloc: no code changes";
  one.reason =
      largest < 0.5 * calls
          ? "The time in malloc and free is spread over many places, so that a pool for one of them "
            "would not help."
          : "A faster malloc helps all places at once; pools would help the most expensive ones more.";
  one.change = "tarn run -- PROGRAM ARG...       to measure it first: tarn compare -- PROGRAM ARG...";
  one.evidence = {say_count(allocations) + " allocations, " + say_time(calls) + " in malloc and free (" +
                      say_of_cpu(facts, calls) + "); the most expensive place has " +
                      say_share(share(largest, calls)),
                  say_count(again) + " pages faulted in again, which tarn would keep for a second",
                  "how much another malloc saves depends on the program; to measure it: tarn prove FILE"};
  return one;
}

}  // namespace tarn::profiler
