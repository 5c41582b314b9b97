// SPDX-License-Identifier: MIT
// The functions of tarn/scope.h.
#include <cerrno>
#include <cstring>

#include "scope/scope_entry.hpp"
#include "scope/scope_registry.hpp"
#include "tarn/scope.h"

using namespace tarn;

tarn_scope tarn_scope_begin(const char* name, const tarn_scope_options* options) noexcept {
  tarn_scope_options all = TARN_SCOPE_OPTIONS;
  if (options != nullptr) std::memcpy(&all, options, options->size < sizeof all ? options->size : sizeof all);
  return scope_registry::begin(name, all);
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
  const size_t known = size < sizeof all ? size : sizeof all;
  std::memcpy(out, &all, known);
  std::memset(reinterpret_cast<char*>(out) + known, 0, size - known);
}

void tarn_scope_visit(void (*visit)(void*, const tarn_scope_stats*), void* context) noexcept {
  scope_registry::visit(visit, context);
}
