// SPDX-License-Identifier: MIT
// The rules about page faults: memory that is returned to the system and faulted in again.
#include <algorithm>
#include <cmath>

#include "profiler/analyze/advice_rules.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::profiler {

namespace {

// What faulting in these pages costs, of all pages of blocks with this cost.
void set_counted_pages(advice& one, const advice_facts& facts, double pages, double all_pages,
                       double variance) {
  const double part = all_pages > 0 ? pages / all_pages : 0;
  set_counted(one, facts, pages * facts.first_touch_ns(), part * part * variance);
}

constexpr double fewest_refaults = 1000;  // pages
// Share of pages that live blocks do not fill: pages beyond the peak up to this share are no refaults.
constexpr double spare_part = 0.1;
constexpr double huge_pages_a_block = 2;  // on average
// Of a buffer: the part of the bytes in large blocks, and the part of the pages that are faulted in again.
constexpr double large_part = 0.9;
constexpr double large_block = 65536;
constexpr double again_part = 0.5;
// Memory that is never touched.
constexpr double least_checked_bytes = 0x1p24;
constexpr double untouched_part = 0.5;
constexpr double least_untouched_bytes = 0x1p25;
constexpr double part_of_peak = 0.25;

double round_up(double bytes, double step) { return std::ceil(bytes / step) * step; }

}  // namespace

std::optional<advice> advise_keeping_memory(const advice_facts& facts) {
  if (!facts.glibc) return std::nullopt;
  const refaults sum = refaults_of(facts);
  // Without a site no page is malloc's, although the kernel has counted faults.
  if (sum.sites.empty() || sum.pages < fewest_refaults || sum.pages < spare_part * sum.all_pages)
    return std::nullopt;
  advice one{.kind = advice_kind::tunable, .site = sum.sites.front(), .sites = sum.sites};
  set_counted(one, facts, sum.pages * facts.first_touch_ns(), facts.cost_variance(sum));
  const double keep = round_up(std::max(2 * sum.peak_bytes, 0x1p26), 0x1p20);
  one.variables = {{"GLIBC_TUNABLES", "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=" +
                                          std::to_string(static_cast<unsigned long long>(keep))}};
  one.headline = "Let glibc keep memory that the program frees and allocates again: no code changes";
  one.reason =
      "glibc maps large blocks one by one and unmaps them when they are freed, and trims its "
      "heap; each time the program allocates the memory again, the kernel maps and zeroes it "
      "page by page.";
  one.change = one.variables[0].name + "=" + one.variables[0].value + " PROGRAM ARG...";
  one.evidence = {
      say_count(sum.pages) + " pages (" + say_bytes(sum.pages * facts.page_bytes) +
          ") were faulted in beyond the " + say_bytes(sum.peak_bytes) + " that were in use at once",
      "a page costs " + say_time(facts.first_touch_ns()) + " to fault in and to give back" +
          (facts.kernel_part < 1
               ? ": the price list says " + say_time(facts.p.prices.fault + facts.p.prices.unmap_page) +
                     ", but then the sum would exceed the program's time in the kernel"
               : std::string(" on this machine"))};
  return one;
}

std::optional<advice> advise_huge_pages(const advice_facts& facts) {
  const price_list& prices = facts.p.prices;
  const bool offered = facts.thp == "madvise";  // under "always" they are there already
  if (!facts.glibc || (facts.glibc_minor != 0 && facts.glibc_minor < 35) || !offered ||
      prices.huge_fault <= 0) {
    return std::nullopt;
  }
  double pages = 0;
  double variance = 0;
  std::vector<std::uint32_t> sites;
  for (const site_group& group : facts.groups) {
    if (group.mean_bytes() < huge_pages_a_block * facts.huge_page_bytes || group.pages() < 512) continue;
    pages += group.pages();
    variance += group.charged.kernel_variance;
    sites.insert(sites.end(), group.sites.begin(), group.sites.end());
  }
  const double per_huge = facts.huge_page_bytes / facts.page_bytes;
  if (sites.empty() || prices.huge_fault >= per_huge * prices.fault) return std::nullopt;
  advice one{.kind = advice_kind::huge_pages, .site = sites.front(), .sites = sites};
  set_counted(one, facts, pages * facts.fault_ns(), variance);
  one.variables = {{"GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"}};
  one.headline = "Ask for huge pages: no code changes";
  one.reason = "Large blocks are backed by small pages, although this system gives huge pages on request.";
  one.change = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 PROGRAM ARG...";
  one.evidence = {say_count(pages) + " small pages in blocks of " + say_bytes(2 * facts.huge_page_bytes) +
                      " and more, at " + say_time(facts.fault_ns()) + " each",
                  "a huge page for " + say_count(per_huge) + " of them costs " + say_time(prices.huge_fault)};
  return one;
}

std::optional<advice> advise_buffer_pool(const advice_facts& facts, const site_group& group) {
  const site_figures& f = group.sum;
  const double again = group.again(facts.page_bytes);
  const bool mostly_large = f.large_bytes >= large_part * f.bytes && group.mean_bytes() >= large_block;
  if (!mostly_large || f.allocations < 2 || again < again_part * group.pages() || again < 256)
    return std::nullopt;
  // The most that it held at once may come from few samples.
  const double held = f.peak_bytes + margin_of(group.held_variance(f.peak_bytes));
  if (group.again(facts.page_bytes, held) <= 0) return std::nullopt;
  advice one = for_group(advice_kind::buffer_pool, facts, group);
  set_counted_pages(one, facts, again, group.pages(), group.charged.kernel_variance);
  const std::string size = say_bytes(group.mean_bytes());
  one.headline = "Keep these " + size + " buffers in a buffer pool";
  one.reason =
      "Every buffer is faulted in page by page, used and unmapped, and so is the next one; a "
      "pool keeps " +
      say_bytes(f.peak_bytes) + " backed and hands it out again.";
  one.change = group.in_array_container()
                   ? "#include <tarn/buffer_pool.hpp>\n"
                     "std::vector<" +
                         (group.type.empty() ? std::string("T") : group.type) + ", tarn::buffer_allocator<" +
                         (group.type.empty() ? std::string("T") : group.type) + ">> values;"
                   : "#include <tarn/buffer_pool.hpp>\n"
                     "static tarn::buffer_pool buffers;\n"
                     "tarn::buffer one = buffers.get(bytes);  // back to the pool when it ends";
  if (!takes_cpp(group.place)) {
    one.headline = "Keep these " + size + " buffers, and use them again";
    one.reason = "Every buffer is faulted in page by page, used and unmapped, and so is the next one.";
    one.change = "keep buffers that are no longer needed, and take one of them before you ask for a new one";
  }
  one.evidence = {say_count(f.allocations) + " blocks of " + size + " on average, at most " +
                      say_bytes(f.peak_bytes) + " at once",
                  say_count(group.pages()) + " pages faulted in, " + say_count(again) +
                      " of them again, at " + say_time(facts.first_touch_ns()) + " a page",
                  "of its " + say_time(group.charged.total()) +
                      ", of which a timer around malloc and free would see " +
                      say_time(group.charged.malloc_ns)};
  return one;
}

std::optional<advice> advise_asking_for_less(const advice_facts& facts, const site_group& group) {
  const site_figures& f = group.sum;
  if (f.checked_bytes < least_checked_bytes || f.resident_bytes > (1 - untouched_part) * f.checked_bytes)
    return std::nullopt;
  const double untouched = 1 - f.resident_bytes / f.checked_bytes;
  if (untouched * f.peak_bytes < std::max(least_untouched_bytes, part_of_peak * facts.peak_bytes))
    return std::nullopt;
  // Untouched pages are never provided by the kernel: asking for less saves address space and overcommit, not time.
  advice one = for_group(advice_kind::ask_for_less, facts, group);
  one.grade = advice_grade::open;
  one.headline = "Request less: " + say_share(untouched) + " of these blocks is never touched";
  one.reason =
      "Memory that is never touched costs no time and is not resident, but it counts against limits of address space "
      "and commit, and under malloc implementations that use huge pages it can become resident.";
  one.change =
      "request about " + say_bytes(group.mean_bytes() * (1 - untouched)) + " at first, and grow on demand";
  one.evidence = {say_bytes(f.checked_bytes) + " examined when freed or at the end, " +
                  say_bytes(f.resident_bytes) + " of it in memory; " + say_bytes(f.peak_bytes) +
                  " requested at once"};
  return one;
}

}  // namespace tarn::profiler
