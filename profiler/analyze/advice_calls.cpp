// SPDX-License-Identifier: MIT
// The rules about the time in malloc and free themselves.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "profiler/analyze/advice_rules.hpp"
#include "profiler/analyze/function_name.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::profiler {

namespace {

// Largest number of frames between an allocation and the constructor.
constexpr std::size_t deepest_constructor = 24;
constexpr double fewest_allocations = 10000;
constexpr double freed_part = 0.5;  // of pooled blocks
constexpr double largest_pooled = 8192;
constexpr double one_size = 0.8;          // share of the allocations
constexpr double foreign = 0.05;          // of the frees: more is "across threads"
constexpr double in_batches = 0.8;        // of the frees
constexpr double growing_part = 0.3;      // reallocs that grow, of the allocations
constexpr std::size_t fewest_places = 2;  // below a constructor
constexpr double fewest_objects = 1000;
constexpr double part_alive = 0.05;    // of a constructor's bytes and, for how long, of the run
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
  cost charged;
  double made = 0;  // allocations of its most frequent site: at least one per object
  double peak_bytes = 0;
  double lifetime_ns = 0;
  double frees = 0;
  std::string where;
  advice_reach reach = advice_reach::own_code;
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
  into.charged += cost_of(p, f);
  into.made = std::max(into.made, f.allocations);
  into.peak_bytes += f.peak_bytes;
  into.lifetime_ns += f.lifetime_ns;
  into.frees += f.frees;
}

// Whether a constructor is among the frames of an address; remembered, as most paths share most of their frames.
class known_constructors {
 public:
  explicit known_constructors(const profile& p) : p_(p) {}

  bool are_in(std::uint32_t stack) {
    for (std::size_t depth = 0; depth < deepest_constructor && stack != 0 && stack < p_.stacks.size();
         ++depth) {
      const stack_node& node = p_.stacks[stack];
      if (is_at(node.address)) return true;
      stack = std::min(node.parent, stack - 1);  // guarantees progress
    }
    return false;
  }

 private:
  bool is_at(std::uint64_t address) {
    const auto [at, is_new] = known_.try_emplace(address, false);
    const auto symbol = is_new ? p_.symbols.find(address) : p_.symbols.end();
    if (symbol != p_.symbols.end()) {
      at->second = std::any_of(symbol->second.begin(), symbol->second.end(),
                               [](const source_frame& frame) { return !constructed_class(frame).empty(); });
    }
    return at->second;
  }

  const profile& p_;
  std::unordered_map<std::uint64_t, bool> known_;
};

std::map<std::string, construction> find_constructions(const profile& p) {
  std::map<std::string, construction> found;
  known_constructors constructors(p);
  for (std::uint32_t index = 0; index < p.sites.size(); ++index) {
    if (!constructors.are_in(p.sites[index].stack)) continue;
    const std::vector<source_frame> frames = frames_of(p, p.sites[index].stack, deepest_constructor);
    for (std::size_t depth = 0; depth < std::min(frames.size(), deepest_constructor); ++depth) {
      const std::string name = constructed_class(frames[depth]);
      if (name.empty() || !takes_cpp(frames[depth])) continue;
      construction& one = found[name];
      if (one.where.empty()) {
        one.where = say_place(frames[depth]);
        one.reach = reach_of(p, frames[depth]);
      }
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
  if (f.frees < freed_part * f.allocations) return std::nullopt;
  const bool across = f.foreign_frees >= foreign * f.frees;
  advice one = for_group(across ? advice_kind::object_pool : advice_kind::typed_pool, facts, group);
  set_counted(one, facts, group.charged);
  const std::string what = group.type.empty() ? "these blocks of " + say_bytes(size) : group.type;
  one.headline = std::string(across ? "An object pool" : "A typed pool") + " for " + what;
  one.reason =
      across
          ? "Many objects of one size are freed by other threads than those that allocate them; a pool "
            "passes them on in whole magazines."
          : "Many objects of one size come and go in the same thread; a pool's hit is three to six cycles.";
  one.change = pool_change(group, across);
  if (!takes_cpp(group.place)) {
    one.headline = "Use " + what + " again: many are made and dropped";
    one.reason = "Many objects of one size come and go; one that is used again costs no malloc and free.";
    one.change = "keep objects that are no longer needed, and take one of them before you make a new one";
  }
  one.evidence = {say_count(f.allocations) + " allocations, " + say_share(share(most.count, f.allocations)) +
                      " of them of " + say_bytes(size) + "; " + say_bytes(f.peak_bytes) + " at once",
                  say_share(share(f.foreign_frees, f.frees)) + " of the frees by another thread, " +
                      say_share(share(f.lifo_frees, f.frees)) + " of the youngest block",
                  say_time(group.charged.malloc_ns) + " in malloc and free"};
  return one;
}

std::vector<advice> advise_arenas(const advice_facts& facts) {
  // Objects that die together are usually allocated in one source file: a parser, a request.
  std::map<std::string, std::vector<const site_group*>> files;
  for (const site_group& group : facts.groups) {
    const site_figures& f = group.sum;
    if (f.frees < fewest_allocations || f.batch_frees < in_batches * f.frees || !takes_cpp(group.place))
      continue;
    if (facts.p.mode == profile_mode::sample && f.samples < fewest_samples) continue;
    if (f.foreign_frees >= foreign * f.frees || f.frees < 0.9 * f.allocations || group.mean_bytes() > 65536)
      continue;
    files[group.place.file.empty() ? group.place.function : group.place.file].push_back(&group);
  }
  std::vector<advice> found;
  for (const auto& [file, groups] : files) {
    advice one = for_group(advice_kind::arena, facts, *groups.front());
    one.sites.clear();
    one.type = groups.size() == 1 ? groups.front()->type : std::string();
    double allocations = 0, batch = 0, frees = 0;
    cost charged;
    for (const site_group* group : groups) {
      const site_figures& f = group->sum;
      one.sites.insert(one.sites.end(), group->sites.begin(), group->sites.end());
      charged += group->charged;
      allocations += f.allocations;
      batch += f.batch_frees;
      frees += f.frees;
    }
    set_counted(one, facts, charged);
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
                    say_time(charged.malloc_ns) + " in malloc and free"};
    found.push_back(std::move(one));
  }
  return found;
}

std::optional<advice> advise_reserve(const advice_facts& facts, const site_group& group) {
  const site_figures& f = group.sum;
  const bool by_realloc = f.reallocs >= growing_part * f.allocations && f.reallocs >= 1000;
  const bool by_copy = !by_realloc && f.allocations >= 1000 && grows_by_name(group) && sizes_double(group);
  if (!by_realloc && !by_copy) return std::nullopt;
  const growth grown = growth_of(group);
  const double calls =
      by_realloc ? std::min(f.reallocs, f.allocations) : std::max(0.0, f.allocations - grown.chains);
  const double copied = by_realloc ? f.realloc_bytes : std::max(0.0, f.bytes - grown.final_bytes);
  const double pages = group.again(facts.page_bytes) * share(copied, f.bytes);
  advice one = for_group(advice_kind::reserve, facts, group);
  set_counted(one, facts, group.charged, share(calls, f.allocations), share(pages, group.pages()));
  one.headline = "Reserve the final size: this block grows step by step";
  one.reason =
      by_realloc ? "realloc enlarges the same blocks again and again."
                 : "Each growth allocates a block of about twice the size, copies the content and frees the "
                   "old block.";
  one.change =
      by_realloc || !takes_cpp(group.place)
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

std::optional<advice> advise_reuse(const advice_facts& facts, const site_group& group) {
  const site_figures& f = group.sum;
  if (!group.in_array_container() || !takes_cpp(group.place) || f.allocations < fewest_allocations ||
      f.frees <= 0)
    return std::nullopt;
  // Few live at a time, and not for long: each is dropped before many others are made.
  if (f.peak_bytes > part_alive * f.bytes || f.lifetime_ns / f.frees > part_alive * facts.duration_ns ||
      advise_reserve(facts, group))
    return std::nullopt;
  advice one = for_group(advice_kind::reuse, facts, group);
  set_counted(one, facts, group.charged);
  one.headline = "Use this container again: it is made, or copied, and soon dropped";
  one.reason =
      "Each new one allocates its block; one that is kept and cleared has it already, and one that is only read "
      "needs no copy.";
  one.change =
      "take it by const reference, std::string_view or std::span where it is a copy; append to it in place of a = a + b;\n"
      "else keep one outside of the loop, or thread_local, and clear() it";
  one.evidence = {say_count(f.allocations) + " blocks of " + say_bytes(group.mean_bytes()) +
                      " on average, at most " + say_bytes(f.peak_bytes) + " at once",
                  say_time(group.charged.malloc_ns) + " in malloc and free"};
  return one;
}

std::vector<advice> advise_recyclers(const advice_facts& facts) {
  std::vector<advice> found;
  for (const auto& [name, one] : find_constructions(facts.p)) {
    if (one.places.size() < fewest_places || one.made < fewest_objects || one.frees <= 0) continue;
    const double alive = one.peak_bytes;
    double bytes = 0;
    for (const std::uint32_t index : one.sites) bytes += facts.p.sites[index].figures.bytes;
    // Few objects live at a time, and not for long: otherwise a new one finds none to reuse.
    if (alive > part_alive * bytes || one.lifetime_ns / one.frees > part_alive * facts.duration_ns) continue;
    advice next{.kind = advice_kind::recycler, .sites = one.sites};
    std::stable_sort(next.sites.begin(), next.sites.end(), [&facts](std::uint32_t a, std::uint32_t b) {
      return cost_of(facts.p, facts.p.sites[a].figures).total() >
             cost_of(facts.p, facts.p.sites[b].figures).total();
    });
    next.site = next.sites.front();
    next.type = name;
    next.place = one.where;
    next.reach = one.reach;
    set_counted(next, facts, one.charged);
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
                     say_time(one.charged.total()) +
                         " in malloc, free and page faults; the constructor's own time comes on top"};
    found.push_back(std::move(next));
  }
  return found;
}

std::optional<advice> advise_allocator(const advice_facts& facts) {
  if (!facts.glibc) return std::nullopt;
  cost charged;
  double largest = 0;
  double allocations = 0;
  for (const site_group& group : facts.groups) {
    charged += group.charged;
    allocations += group.sum.allocations;
    largest = std::max(largest, group.charged.malloc_ns);
  }
  if (charged.malloc_ns <= 0) return std::nullopt;
  const refaults again = refaults_of(facts);
  advice one;
  one.kind = advice_kind::allocator;
  if (!facts.groups.empty()) one.site = facts.groups.front().sites.front();
  set_counted(
      one, facts, charged.malloc_ns + again.pages * facts.first_touch_ns(),
      charged.malloc_variance + charged.malloc_bias * charged.malloc_bias + facts.cost_variance(again));
  one.headline = "Run it on another malloc: no code changes";
  one.reason =
      largest < 0.5 * charged.malloc_ns
          ? "The time in malloc and free is spread over many places. Another malloc changes all of them at once."
          : "Another malloc changes all places at once; one place has most of the time.";
  one.change = "tarn prove FILE";
  one.evidence = {say_count(allocations) + " allocations, " + say_time(charged.malloc_ns) +
                  " in malloc and free (" + say_of_cpu(facts, charged.malloc_ns) +
                  "); the most expensive place has " + say_share(share(largest, charged.malloc_ns))};
  if (again.pages > 0) {
    one.evidence.push_back(say_count(again.pages) + " pages faulted in again, " +
                           say_time(again.pages * facts.first_touch_ns()));
  }
  return one;
}

}  // namespace tarn::profiler
