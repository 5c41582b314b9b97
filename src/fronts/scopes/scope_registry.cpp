// SPDX-License-Identifier: MIT
#include "fronts/scopes/scope_registry.hpp"

#include <cerrno>
#include <cstring>
#include <new>

#include "base/chain.hpp"
#include "base/text.hpp"
#include "os/report.hpp"
#include "samples/guarded/fault_handler.hpp"

namespace tarn {
namespace scope_registry {

constinit engine::front_registry<scope_instance, scope_bin> scopes{os::lock_rank::scopes};

namespace {

constexpr std::size_t least_budget = 128 * kib;
// An empty scope has room for a block of any size up to its limit.
constexpr bool has_room_for_each_class() {
  for (unsigned c = 1; c < size_classes::count; ++c) {
    const std::size_t span_bytes = std::size_t{class_info(c).span_pages} << page_shift;
    if (class_info(c).size <= least_budget && span_bytes > least_budget) return false;
  }
  return true;
}
static_assert(has_room_for_each_class());

// The structures. Their locks are taken in this order: highest number first.
constinit os::mutex cores_lock{os::lock_rank::scopes};
constinit structure_store cores TARN_GUARDED_BY(cores_lock){engine::metadata, engine::blocks,
                                                            sizeof(scope_core), cache_line};
// Numbers of scopes; 1 stands for the process.
constinit std::atomic<std::uint64_t> last_number{TARN_SCOPE_PROCESS_NUMBER};

tarn_scope failed(int error) {
  errno = error;
  return {};
}

bool is_valid(const char* name, const tarn_scope_options& o) {
  return name != nullptr && o.over >= TARN_SCOPE_FAIL && o.over <= TARN_SCOPE_LEND &&
         (o.limit == 0 || o.limit >= least_budget);
}

// The memory of the scope that the new one is to be part of.
scope_core& parent_of(const tarn_scope& asked) {
  if (asked.instance == nullptr && asked.number == TARN_SCOPE_PROCESS_NUMBER) return process_scope;
  if (asked.instance != nullptr) return *scope_instance::of(asked).memory;
  return current_scope_bin != nullptr ? *current_scope_bin->memory : process_scope;
}

magazine* take_all(scope_bin& bin) {
  bin.entered.store(0, std::memory_order_relaxed);
  return bin.take_all();
}
void put_back(scope_instance& /*scope*/, magazine* all) { scope_bin::put_back(all); }

}  // namespace

scope_core* take_core() {
  os::lock_guard guard(cores_lock);
  const structure_store::structure place = cores.take();
  if (place.memory == nullptr) return nullptr;
  auto* const core = static_cast<scope_core*>(place.memory);
  return core->order != 0 ? core : new (core) scope_core(place.number + 1);
}

void keep_core(scope_core* core) {
  os::lock_guard guard(cores_lock);
  cores.put(core->order - 1);
}

// Of all scopes, and of their structures: highest number first.
static constexpr os::lock_walk::part locks[] = {
    [](const os::lock_walk& w) { scopes.walk_locks(w, [](scope_instance& /*scope*/) {}); },
    [](const os::lock_walk& w) { w.visit(cores_lock); },
    [](const os::lock_walk& w) TARN_NOT_ANALYZED {
      cores.for_each_carved(true, [&w](void* core) { w.visit(static_cast<scope_core*>(core)->lock()); });
    },
    [](const os::lock_walk& w) { w.visit(process_scope.lock()); },
    [](const os::lock_walk& w) { w.visit(scope_core::idle_lock()); },
    [](const os::lock_walk& w) { w.visit(names_of_scopes.lock()); },
    [](const os::lock_walk& w) { w.visit(scope_regions.lock()); },
};

tarn_scope begin(const char* name, const tarn_scope_options& options) {
  if (!is_valid(name, options)) return failed(EINVAL);
  scope_core& parent = parent_of(options.parent);
  scope_core* const memory = take_core();
  if (memory == nullptr) return failed(ENOMEM);
  scope_name& row = names_of_scopes.row(name);
  memory->begin(row, options, parent);
  const std::uint64_t number = last_number.fetch_add(1, std::memory_order_relaxed) + 1;
  scope_instance* const scope =
      scopes.create(engine::scope_front, scope_request{row.text, std::strlen(row.text), memory, number});
  if (scope == nullptr) {
    keep_core(memory);
    return failed(ENOMEM);
  }
  memory->handle = {scope, number};
  parent.children.fetch_add(1, std::memory_order_relaxed);
  scope_name::add(row.live);
  return memory->handle;
}

scope_bin* make_bin(scope_instance& scope) {
  scope_bin* const bin = scopes.bin_of(&scope, true);
  if (bin == nullptr) errno = ENOMEM;
  return bin;
}

void end(tarn_scope scope, tarn_scope_report* report) {
  scope_instance& instance = scope_instance::of(scope);
  scope_core& memory = *instance.memory;
  if (memory.children.load(std::memory_order_relaxed) != 0)
    os::fatal_at(&instance, "a scope ends before a scope inside it: \"", instance.name(), '"');
  magazine* all = nullptr;
  scopes.detach_bins(&instance, [&](scope_bin& bin) {
    if (bin.entered.load(std::memory_order_relaxed) != 0)
      os::fatal_at(&instance, "a scope ends while a thread has entered it: \"", instance.name(), '"');
    chain::prepend(all, bin.take_all());
  });
  instance.id.store(0, std::memory_order_relaxed);
  scope_bin::put_back(all);
  scope_core& parent = *memory.parent();
  scope_name& row = *memory.row();
  const bool withholds =
      memory.options().checked != 0 || engine::scopes_checked.load(std::memory_order_relaxed);
  if (withholds) fault_handler::install(engine::guards);
  const scope_core::remains left = memory.finish(parent, withholds, report);
  const std::size_t peak = memory.peak();
  memory.retire();
  parent.children.fetch_sub(1, std::memory_order_relaxed);
  row.live.fetch_sub(1, std::memory_order_relaxed);
  scope_name::add(row.ended);
  scope_name::raise(row.peak, peak);
  scope_name::add(row.survivors, left.blocks);
  scope_name::add(row.survivor_bytes, left.bytes);
  scopes.free(&instance, [] {});
  keep_core(&memory);
}

void release_empty() {
  std::size_t all = 0;
  {
    os::lock_guard guard(cores_lock);
    all = cores.taken();
  }
  process_scope.release_idle_inside(all);
}

namespace {

void add_live(const scope_core& memory, tarn_scope_stats& out) {
  out.limit += memory.options().limit;
  out.charged += memory.charged();
  if (out.peak < memory.peak()) out.peak = memory.peak();
  const std::size_t budget = memory.options().limit;
  if (budget != 0 && memory.charged() > budget) out.lent += memory.charged() - budget;
}

void add_row(const scope_name& row, tarn_scope_stats& out) {
  const auto get = [](const std::atomic<std::uint64_t>& count) {
    return count.load(std::memory_order_relaxed);
  };
  out.name = row.text;
  out.live = get(row.live);
  out.ended = get(row.ended);
  out.peak = get(row.peak);
  out.failures = get(row.failures);
  out.callbacks = get(row.callbacks);
  out.waits = get(row.waits);
  out.survivors = get(row.survivors);
  out.survivor_bytes = get(row.survivor_bytes);
}

}  // namespace

void collect(tarn_scope scope, tarn_scope_stats& out) {
  const scope_core& memory = *scope_instance::of(scope).memory;
  add_row(*memory.row(), out);
  out.live = 1;
  out.peak = 0;
  add_live(memory, out);
}

void visit(void (*visit)(void*, const tarn_scope_stats*), void* context) {
  names_of_scopes.for_each([&](const scope_name& row) {
    tarn_scope_stats out{};
    add_row(row, out);
    {
      os::lock_guard guard(scopes.lock());
      scopes.for_each_locked([&](const scope_instance& instance) {
        if (!instance.pins.is_ending() && instance.memory->row() == &row) add_live(*instance.memory, out);
      });
    }
    visit(context, &out);
  });
}

namespace {

bool has_work() {
  if (scopes.has_work() || scope_regions.has_work()) return true;
  bool work = false;
  {
    os::lock_guard guard(cores_lock);
    work = cores.idle_bytes() != 0;
  }
  os::lock_guard guard(scopes.lock());
  scopes.for_each_locked([&work](scope_instance& scope) { work = work || scope.memory->has_idle(); });
  return work;
}

bool expire_countdowns() {
  bool all = true;
  os::lock_guard guard(scopes.lock());
  scopes.for_each_locked([&all](scope_instance& scope) {
    for (scope_bin* bin = scope.bins; bin != nullptr; bin = bin->next) all = bin->expire_countdowns() && all;
  });
  return all;
}

void thread_ends() {
  current_scope_bin = nullptr;
  engine::allocating = engine::local_cache;
  scopes.thread_ends(take_all, put_back);
}

void age() TARN_NOT_ANALYZED {
  scopes.for_each([](scope_instance& scope) { scope.memory->age(); });
  scopes.age();
  cores.age(cores_lock);
  scope_regions.age(engine::metadata);
}

// Called while fork holds all locks.
void forget_leaving() TARN_NOT_ANALYZED {
  process_scope.forget_leaving();
  cores.for_each_carved(true, [](void* core) { static_cast<scope_core*>(core)->forget_leaving(); });
  cores.forget_holds();
  scope_regions.forget_holds();
}

void reclaim() {
  if (scope_bin* const bin = current_scope_bin) empty_bin(*bin);
  release_empty();
}

}  // namespace
}  // namespace scope_registry

constinit const engine::front engine::scope_front{
    .order = engine::front::scopes,
    .age = scope_registry::age,
    .has_work = scope_registry::has_work,
    .reclaim = scope_registry::reclaim,
    .thread_adopts = [] { scope_registry::scopes.thread_adopts(); },
    .thread_ends = scope_registry::thread_ends,
    .walk_locks = [](const os::lock_walk& w) { w.all(scope_registry::locks); },
    // What lay in other threads' bins stays taken in this child.
    .after_fork_in_child =
        [] {
          scope_registry::scopes.after_fork_in_child(
              [](scope_instance& /*scope*/) -> scope_bin* { return nullptr; });
          scope_registry::forget_leaving();
        },
    .expire_countdowns = scope_registry::expire_countdowns,
    .metrics = &scope_registry::metrics};

// For the report of a fault (samples/guarded/fault_handler.hpp).
bool fault_handler::describe_other(std::uintptr_t address, text_writer& out) {
  const span* const s = scope_core::span_of(reinterpret_cast<const void*>(address));
  if (s == nullptr || (s->list != scope_core::cut_withheld && s->list != scope_core::large_withheld))
    return false;
  const auto* const region = static_cast<const scope_region*>(s->owner.load(std::memory_order_relaxed));
  if (region == nullptr || region->name == nullptr) return false;
  out.put("tarn: access to ").pointer(reinterpret_cast<const void*>(address)).put(": it lies in a block");
  if (s->size_class != 0) out.put(" of at most ").number(class_info(s->size_class).size).put(" bytes");
  out.put(" that has outlived its scope \"").put(static_cast<const char*>(region->name->text)).put("\"\n");
  return true;
}

}  // namespace tarn
