// SPDX-License-Identifier: MIT
#include <algorithm>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

namespace {

constexpr double usual_page_bytes = 4096;
constexpr double usual_huge_page_bytes = 2 << 20;

double meta_number(const profile& p, const char* name, double otherwise) {
  if (!p.meta.is_object()) return otherwise;
  const auto found = p.meta.find(name);
  return found != p.meta.end() && found->is_number() && *found > 0 ? found->get<double>() : otherwise;
}

// What a fault costs is a fixed part, and a part for each page that it gives: prices.fault is that of one page,
// prices.huge_fault that of a huge page. Between them it is taken to grow evenly (folios of 16 to 1024 KiB).
double price_of_further_page(const profile& p) {
  const double pages = meta_number(p, "huge_page_bytes", usual_huge_page_bytes) /
                       meta_number(p, "page_bytes", usual_page_bytes);
  if (p.prices.huge_fault > p.prices.fault && pages > 1) {
    return (p.prices.huge_fault - p.prices.fault) / (pages - 1);
  }
  return std::min(p.prices.zero_page, p.prices.fault);
}

double fault_price(const profile& p, double faults, double pages) {
  return faults * p.prices.fault + std::max(0.0, pages - faults) * price_of_further_page(p);
}

}  // namespace

cost cost_of(const profile& p, const site_figures& figures) {
  const double pages = std::max(figures.faults, figures.fault_pages);
  cost result;
  result.malloc_ns = figures.malloc_ns;
  result.fault_ns = fault_price(p, figures.faults, pages);
  // All pages are given back, at the latest when the program ends.
  result.unmap_ns = pages * p.prices.unmap_page;
  return result;
}

cost cost_of_all(const profile& p) {
  cost sum;
  for (const site& each : p.sites) {
    const cost one = cost_of(p, each.figures);
    sum.malloc_ns += one.malloc_ns;
    sum.fault_ns += one.fault_ns;
    sum.unmap_ns += one.unmap_ns;
  }
  const double others = p.other_faults + p.unseen_faults;
  sum.fault_ns += fault_price(p, others, others);
  sum.unmap_ns += others * p.prices.unmap_page;
  return sum;
}

}  // namespace tarn::profiler
