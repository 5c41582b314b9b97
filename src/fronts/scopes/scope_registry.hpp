// SPDX-License-Identifier: MIT
// scope_registry: all scopes and the threads' bins of them; how a scope begins and ends; what happens to scopes when a
// thread ends, and at fork. How a thread enters and leaves one: scope_entry.hpp.
//
// Thread safety: any thread.
#pragma once

#include <cstddef>

#include "engine/front_registry.hpp"
#include "engine/metrics.hpp"
#include "fronts/scopes/scope_bin.hpp"

namespace tarn::scope_registry {

#pragma GCC visibility push(hidden)

// As tarn_scope_begin() and its siblings.
tarn_scope begin(const char* name, const tarn_scope_options& options);
void end(tarn_scope scope, tarn_scope_report* report);
void collect(tarn_scope scope, tarn_scope_stats& out);
void visit(void (*visit)(void*, const tarn_scope_stats*), void* context);

// The calling thread's bin of the scope, made if needed. Null, with errno set: no memory, or the thread is about to end.
scope_bin* make_bin(scope_instance& scope);

// Gives back the empty spans of all scopes.
void release_empty();

// A structure for a scope or an arena; null: no memory. And where it goes back.
scope_core* take_core();
void keep_core(scope_core* core);

extern const metric_group metrics;
extern engine::front_registry<scope_instance, scope_bin> scopes;

#pragma GCC visibility pop

}  // namespace tarn::scope_registry
