// SPDX-License-Identifier: MIT
// The functions of tarn/scope.h.
#include <atomic>

#include "base/known_part.hpp"
#include "fronts/scopes/scope_entry.hpp"
#include "fronts/scopes/scope_registry.hpp"
#include "os/report.hpp"
#include "tarn/scope.h"

using namespace tarn;

// Defined where libc's malloc is replaced (malloc/override.cpp).
extern "C" [[gnu::weak, gnu::visibility("hidden")]] const char tarn_malloc_is_replaced;

namespace {

// Says once that scopes bound less than the program may expect.
void note_malloc_of_others() {
  static std::atomic<bool> is_said{false};
  if (&tarn_malloc_is_replaced != nullptr || is_said.exchange(true, std::memory_order_relaxed)) return;
  text_buffer<200> line;
  line.put(
      "tarn: scopes bound only tarn_malloc here, because this program's malloc is not tarn's: link tarn::malloc (-ltarn), or "
      "preload libtarn.so.1\n");
  os::write_notice(line);
}

}  // namespace

tarn_scope tarn_scope_begin(const char* name, const tarn_scope_options* options) noexcept {
  note_malloc_of_others();
  return scope_registry::begin(name, known_options<tarn_scope_options>(options, TARN_SCOPE_OPTIONS));
}

int tarn_scope_enter(tarn_scope scope, tarn_scope_entry* entry) noexcept {
  return scope_registry::enter(scope, *entry) ? 1 : 0;
}
void tarn_scope_leave(tarn_scope_entry* entry) noexcept { scope_registry::leave(*entry); }

tarn_scope tarn_scope_current() noexcept {
  const scope_bin* const bin = current_scope_bin;
  return bin != nullptr ? bin->memory->handle : tarn_scope{};
}

void tarn_scope_end(tarn_scope scope, tarn_scope_report* report) noexcept {
  scope_registry::end(scope, report);
}

void tarn_scope_get_stats(tarn_scope scope, tarn_scope_stats* out, size_t size) noexcept {
  tarn_scope_stats all{};
  scope_registry::collect(scope, all);
  put_known(all, out, size);
}

void tarn_scope_visit(void (*visit)(void*, const tarn_scope_stats*), void* context) noexcept {
  scope_registry::visit(visit, context);
}

// ---- metrics ----

namespace tarn::scope_registry {
namespace {

using enum metric_kind;
using enum metric_unit;
using figures = tarn_scope_stats;

constexpr metric_of<figures> rows[] = {
    {"tarn_scope_live_scopes", gauge, none, "Scopes of this name that have not ended", &figures::live},
    {"tarn_scope_budget_bytes", gauge, bytes, "Sum of their budgets; 0 if they have none", &figures::limit},
    {"tarn_scope_charged_bytes", gauge, bytes, "Memory that is charged to them", &figures::charged},
    {"tarn_scope_peak_bytes", gauge, bytes, "The most that was charged to one of this name", &figures::peak},
    {"tarn_scope_ended_scopes", counter, none, "Scopes that have ended", &figures::ended},
    {"tarn_scope_failures", counter, none, "Allocations that failed for a budget", &figures::failures},
    {"tarn_scope_survivors", counter, none, "Blocks that outlived their scope", &figures::survivors},
    {"tarn_scope_survivor_bytes", counter, bytes, "Bytes of the blocks that outlived their scope",
     &figures::survivor_bytes},
};
using table = metric_table<rows>;

void visit_metrics(metric_receiver to) {
  visit([](void* p, const figures* f) { table::give(*static_cast<metric_receiver*>(p), f->name, *f); }, &to);
}

}  // namespace

constinit const metric_group metrics = table::group(visit_metrics, "scope");

}  // namespace tarn::scope_registry
