// SPDX-License-Identifier: MIT
// Uses every public template of include/tarn once. Explicit instantiations compile all members that are not templates
// themselves; main() calls the others. tools/check_headers.sh compiles this file with each compiler and mode and fails
// if it does not name a template of include/tarn; tests/package runs it. Ends with status 0, or aborts.
#include <chrono>
#include <climits>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tarn/arena.hpp"
#include "tarn/buffer_pool.hpp"
#include "tarn/coroutine_frames.hpp"
#include "tarn/pool.hpp"
#include "tarn/pooled.hpp"
#include "tarn/process.hpp"
#include "tarn/recycler.hpp"
#include "tarn/resources.hpp"
#include "tarn/scope.hpp"
#include "tarn/testing.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

struct point {
  double x = 0;
  double y = 0;
};
struct alignas(64) line_of_cache {
  char bytes[64];
};
struct named : tarn::pooled<named> {
  explicit named(std::string text = {}) : name(std::move(text)) {}
  std::string name;
};
struct derived : named {
  int more = 0;
};

template struct tarn::named_stats<tarn_pool_stats>;
template class tarn::buffer_allocator<char>;
template class tarn::buffer_allocator<double>;
template class tarn::buffer_allocator<line_of_cache>;
template class tarn::frame_allocator<point>;
template class tarn::frame_allocator<line_of_cache>;
template class tarn::local_pool<point>;
template class tarn::local_pool<std::string>;
template class tarn::object_pool<point>;
template class tarn::object_pool<std::string>;
template class tarn::shared_pool<point>;
template class tarn::shared_pool<line_of_cache>;
template struct tarn::pool_deleter<point>;
template struct tarn::owner_deleter<point>;
template class tarn::pooled<named>;
template class tarn::pooled_allocator<point>;
template class tarn::pooled_allocator<char, tarn::buffer_allocator<char>>;
template struct tarn::recycler_hooks<std::string>;
template struct tarn::recycler_hooks<point>;
template class tarn::recycler<std::string>;
template class tarn::recycler<std::vector<int>>;
template class tarn::recycler<point>;

namespace {

template <class T>
void use_buffer_allocator(std::size_t large) {
  std::vector<T, tarn::buffer_allocator<T>> values;
  values.resize(3);  // below 64 KiB: operator new
  values.resize(large);
  values.push_back(T{});
  values.clear();
  values.shrink_to_fit();
  tarn::buffer_pool pool;
  const tarn::buffer_allocator<T> allocator(pool);
  std::vector<T, tarn::buffer_allocator<T>> others(large, T{}, allocator);
  others = std::move(values);
  require(tarn::buffer_allocator<char>(allocator) == allocator);
}

template <class Pool>
void use_pool(Pool& pool) {
  point* const one = pool.create(1.0, 2.0);
  require(one->y == 2);
  pool.destroy(one);
  pool.destroy(pool.try_create());
  pool.destroy(pool.create_for_overwrite());
  pool.destroy(pool.try_create_for_overwrite());
  pool.deallocate(pool.allocate());
  pool.deallocate(pool.try_allocate());
  pool.reserve(2);
  require(pool.stats().live == 0);
  static_cast<void>(pool.trim());
}

void use_pools() {
  tarn::local_pool<point> local;
  use_pool(local);
  auto shared = tarn::pool_of<point>();
  use_pool(shared);
  require(shared.make_unique(3.0, 4.0)->x == 3 && shared.make_shared(5.0, 6.0)->y == 6);
  tarn::object_pool<point> own;
  use_pool(own);
  const tarn::pool_ptr<point, tarn::owner_deleter<point>> unique = own.make_unique(1.0, 2.0);
  require(unique->x == 1 && own.make_shared(1.0, 2.0)->y == 2);
  static_assert(tarn::milliseconds(std::chrono::hours(1)).count() == 3'600'000);
  static_assert(tarn::milliseconds(std::chrono::microseconds(1)).count() == 1, "rounded up");
  static_assert(tarn::milliseconds(std::chrono::duration<double>(0.5)).count() == 500);
  static_assert(tarn::milliseconds(std::chrono::milliseconds(-1)).count() == -1);
  static_assert(tarn::milliseconds(std::chrono::hours::max()).count() == INT64_MAX);
  static_assert(tarn::milliseconds(std::chrono::hours::max()).count_or_limit() == UINT_MAX);
  static_assert(tarn::objects_per_span<point> == 64);
  std::size_t visits = 0;
  own.for_each([&visits](point& each) { visits += each.x == 1 ? 1U : 0U; });
  require(visits == 1 && local.erase_if([](const point&) { return true; }) == 0);
}

void use_pooled() {
  delete new named("new");
  delete new (std::nothrow) named("nothrow");
  delete new derived;  // of another size than `named`, so it comes from operator new
  std::map<int, point, std::less<>, tarn::pooled_allocator<std::pair<const int, point>>> places;
  places[1] = point{1, 2};
  std::list<named, tarn::pooled_allocator<named>> names;
  names.emplace_back("a name");
  using base = tarn::buffer_allocator<char>;
  std::vector<char, tarn::pooled_allocator<char, base>> bytes{tarn::pooled_allocator<char, base>(base())};
  bytes.resize(1 << 17);
  require(tarn::node_of<std::list<int>>(1).size >= sizeof(int));
}

void use_arenas() {
  tarn::arena arena;
  const tarn::arena::marker begin = arena.mark();
  require(arena.create<point>(1.0, 2.0)->y == 2 && arena.create<std::string>("text")->size() == 4);
  require(arena.create_without_destructor<int>(7) != nullptr && arena.allocate_array<double>(4) != nullptr);
  require(arena.create_array<std::string>(3).size() == 3 && arena.create_array<int>(3)[2] == 0);
  require(arena.create_for_overwrite<point>()->y == 0 && arena.create_for_overwrite<std::string>()->empty());
  require(arena.create_array_for_overwrite<std::string>(3)[2].empty());
  arena.rewind(begin);
  const tarn::scratch_arena scratch(arena);
  require(scratch->copy("text") == "text");
  tarn::arena_resource of_arena(arena);
  tarn::buffer_resource of_buffers;
  tarn::pool_resource of_pools;
  tarn::local_pool_resource of_thread;
  for (std::pmr::memory_resource* resource :
       std::initializer_list<std::pmr::memory_resource*>{&of_arena, &of_buffers, &of_pools, &of_thread}) {
    std::pmr::vector<int> values(100000, 1, resource);
    values.push_back(2);
  }
}

void use_recyclers() {
  tarn::recycler<std::string> texts;
  *texts.get() = "text";
  std::string* const taken = texts.take();
  require(taken->empty());
  texts.give_back(taken);
  const tarn::kept_ptr<std::string> kept = texts.get().release();
  tarn::recycler made([] { return std::vector<int>(100); });
  made.get()->resize(50);
  tarn::recycler hooked(
      [] {
        return point{1, 2};
      },
      {},
      tarn::recycler_functions{[](point& one) { one.x = 0; }, [](const point&) { return sizeof(point); }});
  require(hooked.get()->y == 2);
  require(texts.stats().gets == 3);
  static_cast<void>(made.trim());
}

void use_pressure() {
  int calls = 0;
  const auto registration = tarn::on_pressure([&calls](const tarn_pressure&) { ++calls; });
  tarn::pressure_registration moved;
  require(!moved.is_active());
  tarn_pressure now;
  tarn_get_pressure(&now);
  require(now.level == 0 && now.used <= now.soft);
}

void use_frames() {
  void* const frame = tarn::coroutine_frames::operator new(200);
  tarn::coroutine_frames::operator delete(frame, 200);
  std::list<point, tarn::frame_allocator<point>> points(3);
  require(points.size() == 3);
}

// An awaitable that is ready, as a template would be given.
struct at_once {
  static bool await_ready() { return true; }
  static void await_suspend(std::coroutine_handle<>) {}
  static int await_resume() { return 5; }
};

void use_scopes() {
  tarn::scope query("query", {.limit = 1 << 20});
  {
    tarn::scope_entry in = query.enter();
    auto crossing = tarn::across(in, at_once{});
    require(crossing.await_ready() && crossing.await_resume() == 5);
    crossing.await_suspend(std::coroutine_handle<>(std::noop_coroutine()));
    require(crossing.await_resume() == 5);
    require(tarn::current_scope().instance == query.handle().instance);
  }
  require(query.end().blocks == 0);
  int names = 0;
  tarn::for_each_scope([&names](const tarn::scope_stats&) { ++names; });
  require(names == 1);
}

void use_counts() {
  if (!tarn::counts_are_possible()) return;
  require(tarn::allocations_of([] {}) <= tarn::allocation_limit{});
  const auto ignore = [](const std::string&) {};
  const tarn::basic_allocation_budget<decltype(ignore)> budget({.allocations = 1}, ignore);
  require(tarn::to_string(budget.used()) == "no allocation");
}

// ---- pools as members of classes ----
// Declared without an initialiser: of a class that is nested in the same class and has default member initialisers, of a
// class that is defined later, and in classes that are initialised by {} or have a default argument.

struct later;
template <class T>
struct fronts {
  tarn::object_pool<T> own;
  tarn::local_pool<T> local;
  tarn::recycler<T> idle;
};
struct with_nested {
  struct item {
    int number = 1;
    std::string name;
  };
  struct inner : fronts<item> {
    int more = 3;
  };
  struct options {
    tarn::pool_options pool;
    tarn::recycler_options idle;
    tarn::buffer_pool_options buffers;
    int more = 4;
  };

  fronts<item> plain;
  inner derived;
  inner empty = {};
  tarn::object_pool<item> several[2];
  tarn::recycler<item> idle;
  tarn::arena arena;
  tarn::buffer_pool buffers;
  tarn::locked_buffer_pool secrets;
  tarn::buffer_resource of_buffers;
  tarn::pool_resource of_pools;
  tarn::local_pool_resource of_thread;
};
struct with_default_argument {
  struct item {
    int number = 1;
  };
  explicit with_default_argument(int start = 5) : first(start) {}
  int first;
  fronts<item> pools;
};
struct with_later {
  with_later();
  ~with_later();
  fronts<later> pools;
};
struct later {
  int number = 6;
};
with_later::with_later() = default;
with_later::~with_later() = default;
template <class T>
struct with_parameter {
  struct node {
    T value;
    node* next = nullptr;
  };
  fronts<T> of_values;
  fronts<node> of_nodes;
};

template <class Class>
void use_class() {
  Class declared;
  Class braces{};
  Class copied = {};
  static_cast<void>(declared);
  static_cast<void>(braces);
  static_cast<void>(copied);
}

void use_members() {
  use_class<fronts<point>>();
  use_class<with_nested>();
  use_class<with_parameter<std::string>>();
  const with_default_argument one;
  with_later other;
  later* const object = other.pools.own.create();
  require(one.first == 5 && object->number == 6 && other.pools.idle.get()->number == 6);
  other.pools.own.destroy(object);
}

}  // namespace

int main() {
  use_buffer_allocator<char>(1 << 20);
  use_buffer_allocator<double>(1 << 17);
  use_buffer_allocator<line_of_cache>(1 << 11);
  use_pools();
  use_pooled();
  use_arenas();
  use_recyclers();
  use_pressure();
  use_scopes();
  use_frames();
  use_counts();
  use_members();
  require(tarn::profile::start());
  tarn::profile::stop();
  require(!tarn::profile::text().empty());
  require(tarn::profile::save("/") != 0);
  require(!tarn::pools().empty());
  return 0;
}
