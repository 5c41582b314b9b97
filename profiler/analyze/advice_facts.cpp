// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdlib>

#include "profiler/analyze/advice_rules.hpp"
#include "profiler/analyze/site_label.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/model/known_meta.hpp"

namespace tarn::profiler {

namespace {

// "glibc 2.36", or the path of the library that malloc is in.
void set_allocator(advice_facts& facts) {
  const std::string name = text_in(facts.p.meta, "allocator");
  const std::string file = name.substr(name.rfind('/') == std::string::npos ? 0 : name.rfind('/') + 1);
  facts.glibc = name.starts_with("glibc") || file.starts_with("libc.so") || file.starts_with("libc-2");
  const std::size_t version = name.find("2.");
  if (facts.glibc && version != std::string::npos) facts.glibc_minor = std::atoi(name.c_str() + version + 2);
}

}  // namespace

double cpu_time_of(const profile& p) {
  const double cpu = processor_ns(p);
  if (cpu > 0) return std::max(1.0, cpu);
  const double duration = positive_in(p.meta, "duration_ns", 0);
  if (p.counters.empty()) return std::max(1.0, duration);
  return std::max({1.0, std::min(duration, clock_tick_ns), cost_of_all(p).total()});
}

namespace {

// If no faults were observed at all, those of small blocks are among the faults that only the kernel counted,
// together with those of the program's images and stacks.
double unjoined_pages(const advice_facts& facts) {
  constexpr double of_images = 2000;
  if (positive_in(facts.p.meta, "fault_period", 0) > 0 || facts.p.unseen_faults <= 0) return 0;
  double joined = 0;
  for (const site_group& group : facts.groups) joined += group.unseen_pages;
  return std::max(0.0, facts.p.unseen_faults - joined - of_images);
}

}  // namespace

double peak_bytes_of(const profile& p) {
  double sum = 0;
  for (const site& one : p.sites) sum += one.figures.bytes_at_peak;
  return sum;
}

advice_facts facts_of(const profile& p) {
  advice_facts facts{p};
  facts.groups = group_sites(p);
  facts.cpu_ns = cpu_time_of(p);
  facts.page_bytes = page_bytes_of(p);
  facts.huge_page_bytes = positive_in(p.meta, "huge_page_bytes", 2 << 20);
  facts.duration_ns = positive_in(p.meta, "duration_ns", facts.cpu_ns);
  facts.peak_bytes = peak_bytes_of(p);
  facts.own_ns = std::max(0.0, facts.cpu_ns - cost_of_all(p).total());
  facts.small = small_blocks_of(facts.groups, p);
  facts.kernel_part = p.fit.kernel;
  facts.thp = text_in(p.meta, "thp");
  set_allocator(facts);
  return facts;
}

refaults refaults_of(const advice_facts& facts) {
  refaults sum;
  const double unjoined = unjoined_pages(facts);
  sum.all_pages = unjoined;
  double held = 0;
  for (const site_group& group : facts.groups) {
    const double pages = std::max(0.0, group.pages() - group.sum.mapped_bytes / facts.page_bytes);
    double at_peak = 0;
    for (const std::uint32_t index : group.sites) at_peak += facts.p.sites[index].figures.bytes_at_peak;
    const double part = group.touched_part() * group.chunk_part() / facts.page_bytes;
    held += part * at_peak;
    sum.variance += part * part * group.held_variance(at_peak);
    if (pages < 1 && unjoined < 1) continue;
    sum.all_pages += pages;
    sum.variance += group.sum.faults_variance;
    sum.peak_bytes += group.sum.peak_bytes;
    sum.sites.insert(sum.sites.end(), group.sites.begin(), group.sites.end());
  }
  const double found = sum.all_pages - held;
  sum.pages = found > margin_of(sum.variance) ? found : 0;
  sum.peak_bytes = std::min(sum.peak_bytes, facts.peak_bytes);
  return sum;
}

double advice_facts::cost_variance(const refaults& again) const noexcept {
  return first_touch_ns() * first_touch_ns() * again.variance;
}

void set_counted(advice& one, const advice_facts& facts, double ns, double variance) {
  one.counted_ns = std::clamp(ns, 0.0, facts.cpu_ns);
  one.counted_variance = variance;
  one.share = one.counted_ns / facts.cpu_ns;
}

void set_counted(advice& one, const advice_facts& facts, const cost& charged, double call_part,
                 double fault_part) {
  const unsigned costs = advice_kinds[static_cast<std::size_t>(one.kind)].costs;
  const double calls = (costs & calls_cost) != 0 ? std::min(1.0, call_part) : 0;
  const double faults = (costs & faults_cost) != 0 ? std::min(1.0, fault_part) : 0;
  const double bias = calls * charged.malloc_bias;
  set_counted(
      one, facts, calls * charged.malloc_ns + faults * charged.hidden(),
      calls * calls * charged.malloc_variance + faults * faults * charged.kernel_variance + bias * bias);
}

namespace {

// Folders of what a distribution installs, or a package of a script's language; what lies in /usr/local or a home is the reader's.
bool is_installed(const std::string& path) {
  for (const char* folder : {"-packages/", "/node_modules/", "/gems/"}) {
    if (path.find(folder) != std::string::npos) return true;
  }
  for (const char* folder : {"/usr/local/", "/usr/src/"}) {
    if (path.starts_with(folder)) return false;
  }
  for (const char* folder :
       {"/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/", "/nix/store/", "/gnu/store/", "/snap/"}) {
    if (path.starts_with(folder)) return true;
  }
  return false;
}

}  // namespace

advice_reach reach_of(const profile& p, const source_frame& place) {
  if (place.kind == frame_kind::interpreter) return advice_reach::package;
  if (place.kind == frame_kind::script)
    return is_plumbing(place) || is_installed(place.file) ? advice_reach::package : advice_reach::own_code;
  const module_info* const module = place.address > 0 ? module_at(p, place.address - 1) : nullptr;
  return module != nullptr && is_installed(module->path) ? advice_reach::package : advice_reach::own_code;
}

bool takes_cpp(const source_frame& place) {
  if (place.kind == frame_kind::script || place.kind == frame_kind::interpreter) return false;
  for (const char* ending : {".rs", ".go", ".java"}) {
    if (place.file.ends_with(ending)) return false;
  }
  // Without a file, a function of C++ has parameters.
  const bool is_rust = place.file.empty() && place.function.find("::") != std::string::npos &&
                       place.function.find('(') == std::string::npos;
  return !is_rust;
}

advice for_group(advice_kind kind, const advice_facts& facts, const site_group& group) {
  return {.kind = kind,
          .reach = reach_of(facts.p, group.place),
          .site = group.sites.front(),
          .sites = group.sites,
          .type = group.type,
          .place = say_place(group.place)};
}

std::string say_of_cpu(const advice_facts& facts, double ns) {
  return say_share(ns / facts.cpu_ns) + " of the program's CPU time";
}

}  // namespace tarn::profiler
