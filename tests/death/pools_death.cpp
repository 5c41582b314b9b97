// SPDX-License-Identifier: MIT
// Misuse of checked pools: each kind ends the process at once, with a line that names error, type and address.
//
// Each statement runs in a forked child with a copy of the parent's heap, so the parent knows the pointer to expect.
#include <cstdlib>
#include <memory>
#include <thread>

#include "expect_abort.hpp"
#include "pooled_types.hpp"
#include "tarn/malloc.h"

static_assert(TARN_CHECKED_POOLS == 1);

static int destructors = 0;
struct noticed {
  std::uint64_t words[4] = {};
  ~noticed() {
    if (++destructors == 2) std::_Exit(3);
  }
};

namespace tarn {
namespace {

using testing_support::hidden;

template <class T>
T* at(void* p, std::size_t offset = 0) {
  return reinterpret_cast<T*>(static_cast<char*>(hidden(p)) + offset);
}

TEST(pools_death, destroyed_twice) {
  order* const object = orders.create();
  orders.destroy(object);
  EXPECT_TARN_ABORT(orders.destroy(hidden(object)), "double destroy of order", object);
  EXPECT_TARN_ABORT(orders.deallocate(hidden(object)), "double destroy of order", object);
  EXPECT_TARN_ABORT(std::thread([&] { orders.destroy(hidden(object)); }).join(), "double destroy of order",
                    object);

  object_pool<order> own({.name = "the orders of today"});
  order* const other = own.create();
  own.destroy(other);
  EXPECT_TARN_ABORT(own.destroy(hidden(other)), "double destroy of the orders of today", other);
  EXPECT_TARN_ABORT(owner_deleter<order>()(hidden(other)), "double destroy of the orders of today", other);

  local_pool<order> local;
  order* const third = local.create();
  local.destroy(third);
  EXPECT_TARN_ABORT(local.destroy(hidden(third)), "double destroy of order", third);
}

TEST(pools_death, the_destructor_does_not_run_twice) {
  noticed* const object = pool_of<noticed>().create();
  EXPECT_TARN_ABORT(
      {
        pool_of<noticed>().destroy(object);
        pool_of<noticed>().destroy(hidden(object));
      },
      "double destroy of noticed", object);
  object_pool<noticed> own;
  noticed* const other = own.create();
  EXPECT_TARN_ABORT(
      {
        own.destroy(other);
        owner_deleter<noticed>()(hidden(other));
      },
      "double destroy of noticed", other);
  std::unique_ptr<noticed, owner_deleter<noticed>> keeps_counting(own.create());
  pool_of<noticed>().deallocate(object);
  own.deallocate(other);
}

TEST(pools_death, pointers_of_no_pool) {
  const char* const text = "destroy in the pool of order, of a pointer that is in no pool";
  order on_the_stack;
  EXPECT_TARN_ABORT(orders.destroy(hidden(&on_the_stack)), text, &on_the_stack);
  void* const of_libc = std::malloc(sizeof(order));
  EXPECT_TARN_ABORT(orders.destroy(at<order>(of_libc)), text, of_libc);
  void* const of_tarn = tarn_malloc(sizeof(order));
  EXPECT_TARN_ABORT(orders.destroy(at<order>(of_tarn)), text, of_tarn);
  void* const nearly_null = reinterpret_cast<void*>(std::uintptr_t{64});
  EXPECT_TARN_ABORT(orders.destroy(at<order>(nearly_null)), text, nearly_null);
  void* const nowhere = reinterpret_cast<void*>(~std::uintptr_t{63});
  EXPECT_TARN_ABORT(orders.destroy(at<order>(nowhere)), text, nowhere);
  EXPECT_TARN_ABORT(owner_deleter<order>()(at<order>(of_tarn)), "destroy of a pointer that is in no pool",
                    of_tarn);
  tarn_free(of_tarn);
  std::free(of_libc);
}

TEST(pools_death, objects_of_another_pool) {
  order* const object = orders.create();
  const char* const text = "destroy in the pool of invoice, of an object of the pool of order";
  EXPECT_TARN_ABORT(invoices.destroy(at<invoice>(object)), text, object);
  invoices.destroy(invoices.create());
  EXPECT_TARN_ABORT(invoices.destroy(at<invoice>(object)), text, object);
  // In a thread that has used neither pool.
  EXPECT_TARN_ABORT(std::thread([&] { invoices.destroy(at<invoice>(object)); }).join(), text, object);
  EXPECT_TARN_ABORT(std::thread([&] { invoices.deallocate(at<invoice>(object)); }).join(), text, object);

  object_pool<order> a({.name = "a"});
  object_pool<order> b({.name = "b"});
  object_pool<order> also_b({.name = "b"});
  order* const of_a = a.create();
  order* const of_b = b.create();
  EXPECT_TARN_ABORT(b.destroy(of_a), "destroy in the pool of b, of an object of the pool of a", of_a);
  EXPECT_TARN_ABORT(also_b.destroy(of_b),
                    "destroy in the pool of b, of an object of another pool of that name", of_b);
  EXPECT_TARN_ABORT(orders.destroy(of_a), "destroy in the pool of order, of an object of the pool of a",
                    of_a);
  local_pool<order> unused;
  EXPECT_TARN_ABORT(unused.destroy(of_a), "destroy in the pool of order, of an object of the pool of a",
                    of_a);
  EXPECT_TARN_ABORT(unused.deallocate(of_a), "destroy in the pool of order, of an object of the pool of a",
                    of_a);
  a.destroy(of_a);
  b.destroy(of_b);
  orders.destroy(object);
}

TEST(pools_death, pointers_into_an_object) {
  order* const object = orders.create();
  for (const std::size_t offset : {1U, 8U, 47U}) {
    EXPECT_TARN_ABORT(orders.destroy(at<order>(object, offset)),
                      "destroy of a pointer into an object of order, not to its start",
                      at<order>(object, offset));
  }
  orders.destroy(object);
}

TEST(pools_death, a_slot_that_was_never_handed_out) {
  order* const object = orders.create();
  EXPECT_TARN_ABORT(orders.destroy(hidden(object) + 150),
                    "destroy of a pointer that never was an object of order", object + 150);
  orders.destroy(object);
}

TEST(pools_death, written_to_after_destroy) {
  const char* const text = "write after destroy of order, detected when its memory was allocated again";
  for (const std::size_t offset : {0U, 5U, 47U}) {
    order* const object = orders.create();
    orders.destroy(object);
    EXPECT_TARN_ABORT(
        {
          *at<char>(object, offset) = 'x';
          // The pool hands out the object that was destroyed last.
          (void)orders.create();
        },
        text, object);
  }
}

TEST(pools_death, malloc_and_pools_do_not_mix) {
  order* const object = orders.create();
  EXPECT_TARN_ABORT(tarn_free(hidden(object)), "invalid free of an object of a typed pool", object);
  orders.destroy(object);
}

TEST(pools_death, a_derived_class_deleted_through_its_base_without_a_virtual_destructor) {
  delete hidden(new vehicle);
  truck* const one = new truck;
  EXPECT_TARN_ABORT(
      delete hidden(static_cast<vehicle*>(one)),
      "delete of a derived class through its base, which needs a virtual destructor, in the pool of vehicle, "
      "of a pointer that is in no pool",
      one);
  delete one;
}

}  // namespace
}  // namespace tarn
