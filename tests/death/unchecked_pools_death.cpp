// SPDX-License-Identifier: MIT
// Misuse that pools detect without TARN_CHECKED_POOLS: wrong pointers and double destroys, at the moment when the
// object goes back to its span. A line names the pool, and the process ends.
//
// Each statement runs in a forked child with a copy of the parent's heap, so the parent knows the pointer to expect.
#include <cstdlib>
#include <thread>

#include "expect_abort.hpp"
#include "pooled_types.hpp"
#include "tarn/malloc.h"

static_assert(TARN_CHECKED_POOLS == 0);

namespace tarn {
namespace {

using testing_support::hidden;

const char* const none_of_its = "destroy of a pointer that is not one of its objects, in the pool of order";
const char* const twice =
    "double destroy, detected when the object returned to its span, in the pool of order";
const char* const into = "destroy of a pointer into an object, not to its start, in the pool of order";

template <class T>
void destroy_and_flush(T* wrong) {
  orders.destroy(reinterpret_cast<order*>(hidden(wrong)));
  orders.trim();
}

TEST(unchecked_pools_death, destroyed_twice) {
  order* const keep = orders.create();  // keeps the span in use
  order* const object = orders.create();
  orders.destroy(object);
  EXPECT_TARN_ABORT(destroy_and_flush(object), twice, object);
  orders.trim();
  EXPECT_TARN_ABORT(destroy_and_flush(object), twice, object);
  EXPECT_TARN_ABORT(std::thread([&] { orders.destroy(hidden(object)); }).join(), twice, object);
  orders.destroy(keep);
}

TEST(unchecked_pools_death, pointers_into_an_object) {
  order* const object = orders.create();
  char* const inside = reinterpret_cast<char*>(object) + 8;
  EXPECT_TARN_ABORT(destroy_and_flush(inside), into, inside);
  orders.destroy(object);
}

TEST(unchecked_pools_death, pointers_of_no_pool) {
  order on_the_stack;
  EXPECT_TARN_ABORT(destroy_and_flush(&on_the_stack), none_of_its, &on_the_stack);
  void* const of_tarn = tarn_malloc(sizeof(order));
  EXPECT_TARN_ABORT(destroy_and_flush(static_cast<char*>(of_tarn)), none_of_its, of_tarn);
  char* const nearly_null = reinterpret_cast<char*>(std::uintptr_t{64});
  EXPECT_TARN_ABORT(destroy_and_flush(nearly_null), none_of_its, nearly_null);
  char* const nowhere = reinterpret_cast<char*>(~std::uintptr_t{63});
  EXPECT_TARN_ABORT(destroy_and_flush(nowhere), none_of_its, nowhere);
  EXPECT_TARN_ABORT(owner_deleter<order>()(reinterpret_cast<order*>(hidden(of_tarn))),
                    "destroy of a pointer that is in no pool", of_tarn);
  tarn_free(of_tarn);
}

TEST(unchecked_pools_death, objects_of_another_pool) {
  invoice* const object = invoices.create();
  EXPECT_TARN_ABORT(destroy_and_flush(object), none_of_its, object);
  // In a thread that has used neither pool.
  EXPECT_TARN_ABORT(std::thread([&] { orders.destroy(reinterpret_cast<order*>(hidden(object))); }).join(),
                    none_of_its, object);
  object_pool<order> a({.name = "a"});
  object_pool<order> b({.name = "b"});
  order* const of_a = a.create();
  EXPECT_TARN_ABORT(
      {
        b.destroy(of_a);
        b.trim();
      },
      "destroy of a pointer that is not one of its objects, in the pool of b", of_a);
  a.destroy(of_a);
  invoices.destroy(object);
}

TEST(unchecked_pools_death, malloc_and_pools_do_not_mix) {
  order* const object = orders.create();
  EXPECT_TARN_ABORT(tarn_free(hidden(object)), "invalid free of an object of a typed pool", object);
  orders.destroy(object);
}

TEST(unchecked_pools_death, a_derived_class_deleted_through_its_base_without_a_virtual_destructor) {
  delete hidden(new vehicle);
  const char* const message =
      "delete of a derived class through its base, which needs a virtual destructor, in the pool of vehicle, "
      "of a pointer that is in no pool";
  truck* const one = new truck;
  EXPECT_TARN_ABORT(delete hidden(static_cast<vehicle*>(one)), message, one);
  EXPECT_TARN_ABORT(std::thread([&] { delete hidden(static_cast<vehicle*>(one)); }).join(), message, one);
  delete one;
  delete hidden(new vehicle);
  delete hidden(static_cast<vehicle*>(nullptr));
}

}  // namespace
}  // namespace tarn
