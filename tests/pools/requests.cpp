// SPDX-License-Identifier: MIT
// tarn_pool_create and tarn_pool_shared refuse invalid requests with EINVAL and those that would need too much memory
// with ENOMEM; unusual but valid ones succeed. A type with a very long name has one pool for all threads.
#include <cerrno>
#include <string>
#include <thread>
#include <tuple>

#include "program.hpp"
#include "tarn/pool.hpp"

namespace {

tarn_pool_options good() {
  tarn_pool_options request = TARN_POOL_OPTIONS;
  request.object_size = 64;
  request.alignment = 8;
  request.name = "requests";
  request.name_length = 8;
  return request;
}

template <class Change>
void expect_refused(const char* what, int error, Change change) {
  tarn_pool_options request = good();
  change(request);
  errno = 0;
  tarn_pool* const pool = tarn_pool_create(&request);
  TARN_CHECK(pool == nullptr && errno == error, "create with %s: %s, errno %d, not %d", what,
             pool == nullptr ? "null" : "a pool", errno, error);
  if (request.initial_capacity != 0) return;  // a shared pool ignores it
  errno = 0;
  tarn_pool* const shared = tarn_pool_shared(&request);
  TARN_CHECK(shared == nullptr && errno == error, "shared with %s: %s, errno %d, not %d", what,
             shared == nullptr ? "null" : "a pool", errno, error);
}

template <class Change>
void expect_met(const char* what, Change change) {
  tarn_pool_options request = good();
  change(request);
  tarn_pool* const pool = tarn_pool_create(&request);
  TARN_CHECK(pool != nullptr, "create with %s: errno %d", what, errno);
  tarn_pool_bin* none = &tarn::detail::no_bin.bin;
  static void* slots[10000];
  const std::size_t count = request.object_size < 1U << 20 ? 10000 : 50;
  for (std::size_t i = 0; i < count; ++i) {
    void*& slot = slots[i];
    slot = tarn::detail::pop(none);
    if (slot == nullptr) slot = tarn_pool_allocate_slow(pool, &none);
    tarn::detail::unpoison(slot, request.object_size);
    TARN_CHECK(slot != nullptr, "no slot with %s", what);
    TARN_CHECK(reinterpret_cast<std::uintptr_t>(slot) % request.alignment == 0, "slot %p with %s", slot,
               what);
    memset(slot, 1, request.object_size);
  }
  tarn_pool_stats figures{};
  tarn_pool_get_stats(pool, &figures, sizeof figures);
  const std::size_t at_most = count * figures.object_bytes * 5 / 4 + (4U << 20);
  TARN_CHECK(figures.bytes <= at_most, "with %s, %zu slots of %llu bytes take %llu bytes", what, count,
             static_cast<unsigned long long>(figures.object_bytes),
             static_cast<unsigned long long>(figures.bytes));
  for (std::size_t i = 0; i < count; ++i) tarn_pool_deallocate_slow(pool, &none, slots[i]);
  TARN_CHECK(tarn_pool_destroy(pool) == 0, "objects are live with %s", what);
}

// A name of more than a thousand characters.
template <class... Types>
struct long_name {
  std::tuple<Types*...> pointers;
  std::uint64_t number = 0;
};
template <int Number>
struct a_type_with_a_name_that_is_rather_long_so_that_a_few_of_them_make_a_very_long_one {};
template <int Number>
using part = a_type_with_a_name_that_is_rather_long_so_that_a_few_of_them_make_a_very_long_one<Number>;
using longest =
    long_name<part<1>, part<2>, part<3>, part<4>, part<5>, part<6>, part<7>, part<8>, part<9>, part<10>,
              part<11>, part<12>, part<13>, part<14>, part<15>, part<16>, part<17>, part<18>>;

void long_names() {
  constexpr auto pool = tarn::pool_of<longest>();
  longest* const object = pool.create();
  std::thread([&] {
    pool.destroy(pool.create());
    TARN_CHECK(pool.stats().live == 1, "in another thread, a type with a long name has a different pool");
    pool.destroy(object);
  }).join();
  TARN_CHECK(pool.stats().live == 0, "%zu objects are live after all are gone", pool.stats().live);
}

}  // namespace

int main() {
  guarantee::start();
  const auto set = [](auto member, auto value) {
    return [member, value](tarn_pool_options& request) { request.*member = value; };
  };
  using request = tarn_pool_options;
  expect_refused("size 0", EINVAL, set(&request::object_size, 0U));
  expect_refused("size 2^40", EINVAL, set(&request::object_size, std::size_t{1} << 40));
  expect_refused("size SIZE_MAX", EINVAL, set(&request::object_size, SIZE_MAX));
  expect_refused("alignment 0", EINVAL, set(&request::alignment, 0U));
  expect_refused("alignment 24", EINVAL, set(&request::alignment, 24U));
  expect_refused("alignment 2^40", EINVAL, set(&request::alignment, std::size_t{1} << 40));
  expect_refused("65 shards", EINVAL, set(&request::shards, 65U));
  expect_refused("a magazine of 253", EINVAL, set(&request::magazine_length, 253U));
  expect_refused("no name of 8 characters", EINVAL, set(&request::name, static_cast<const char*>(nullptr)));
  expect_refused("2^58 objects", ENOMEM, set(&request::initial_capacity, std::size_t{1} << 58));
  expect_refused("2^40 objects", ENOMEM, set(&request::initial_capacity, std::size_t{1} << 40));

  expect_met("no name", [](request& r) {
    r.name = nullptr;
    r.name_length = 0;
  });
  expect_met("a name of 100000 characters", [](request& r) {
    static const std::string name(100000, 'x');
    r.name = name.data();
    r.name_length = name.size();
  });
  expect_met("size 1", set(&request::object_size, 1U));
  expect_met("alignment 1 MiB", [](request& r) { r.object_size = r.alignment = 1U << 20; });
  expect_met("100000 objects per span", set(&request::objects_per_span, 100000U));
  expect_met("SIZE_MAX objects per span", set(&request::objects_per_span, SIZE_MAX));
  expect_met("64 shards", set(&request::shards, 64U));
  expect_met("a magazine of 1", set(&request::magazine_length, 1U));
  expect_met("a magazine of 252", set(&request::magazine_length, 252U));
  expect_met("huge pages", set(&request::huge_pages, 1));
  long_names();
}
