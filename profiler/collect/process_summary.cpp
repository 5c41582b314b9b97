// SPDX-License-Identifier: MIT
#include "profiler/collect/process_summary.hpp"

namespace tarn::profiler {

void process_summary::add(const process_summary& other) {
  images += other.images;
  allocations += other.allocations;
  bytes += other.bytes;
  faults += other.faults;
  cpu_ns += other.cpu_ns;
  charged.malloc_ns += other.charged.malloc_ns;
  charged.fault_ns += other.charged.fault_ns;
  charged.unmap_ns += other.charged.unmap_ns;
  charged.malloc_variance += other.charged.malloc_variance;
  charged.malloc_bias += other.charged.malloc_bias;
  charged.kernel_variance += other.charged.kernel_variance;
}

process_summary summary_of(const profile& p) {
  process_summary result;
  if (p.meta.is_object()) {
    result.process = p.meta.value("pid", 0U);
    result.parent = p.meta.value("parent", 0U);
    result.command = p.meta.value("command", p.meta.value("program", std::string()));
    result.arguments = p.meta.value("arguments", std::vector<std::string>());
    result.images = p.meta.value("processes", 1.0);
    const auto children = p.meta.find("small_children");
    if (children != p.meta.end() && children->is_object()) result.images += children->value("processes", 0.0);
  }
  for (const site& each : p.sites) {
    result.allocations += each.figures.allocations;
    result.bytes += each.figures.bytes;
  }
  if (!p.counters.empty()) {
    result.faults = p.counters.back().faults;
    result.cpu_ns = processor_ns(p);
  }
  result.charged = cost_of_all(p);
  return result;
}

}  // namespace tarn::profiler
