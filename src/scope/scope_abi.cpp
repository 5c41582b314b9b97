// SPDX-License-Identifier: MIT
// The functions of tarn/scope.h.
#include "base/known_part.hpp"
#include "scope/scope_entry.hpp"
#include "scope/scope_registry.hpp"
#include "tarn/scope.h"

using namespace tarn;

tarn_scope tarn_scope_begin(const char* name, const tarn_scope_options* options) noexcept {
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
