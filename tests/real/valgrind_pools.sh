#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# valgrind: a program with typed pools and a recycler. memcheck reports no error and no leak in a correct program; with
# checked pools it reports a read of an object after its destruction.
include=$(realpath "$(dirname "$0")/../../include") # before common.sh changes the folder
. "$(dirname "$0")/common.sh"
need valgrind valgrind
need g++ g++

cat >work.cpp <<'CODE'
#include <cstdio>
#include <cstdlib>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <tarn/pool.hpp>
#include <tarn/pooled.hpp>
#include <tarn/recycler.hpp>

struct order {
  explicit order(int n) : number(n), text(60, 'x') {}
  int number;
  std::string text;
};
static std::list<int, tarn::pooled_allocator<int>> global_list;
static tarn::recycler<std::string> strings;

static int work(int seed) {
  constexpr auto pool = tarn::pool_of<order>();
  std::vector<order*> orders;
  int sum = 0;
  for (int i = 0; i < 3000; ++i) {
    orders.push_back(pool.create(seed + i));
    if (i % 3 == 0) {
      sum += orders[orders.size() / 2]->number % 7;
      pool.destroy(orders[orders.size() / 2]);
      orders.erase(orders.begin() + static_cast<std::ptrdiff_t>(orders.size() / 2));
    }
    auto s = strings.get();
    s->append(static_cast<std::size_t>(i % 500), 'y');
    sum += static_cast<int>(s->size() % 3);
  }
  for (order* each : orders) pool.destroy(each);
  return sum;
}

int main(int count, char**) {
  if (count > 1) {  // what memcheck must find
    constexpr auto pool = tarn::pool_of<order>();
    order* const gone = pool.create(1);
    pool.destroy(gone);
    std::printf("%d\n", *static_cast<volatile int*>(&gone->number));
    std::fflush(stdout);
    std::_Exit(0);
  }
  int sums[2] = {};
  std::thread other([&] { sums[1] = work(1000); });
  sums[0] = work(0);
  other.join();
  for (int i = 0; i < 100; ++i) global_list.push_back(sums[i % 2]);
  tarn::object_pool<order> own;
  auto kept = own.make_unique(7);
  auto shared = tarn::pool_of<order>().make_shared(8);
  std::printf("%d %d %d\n", sums[0], sums[1], kept->number + shared->number);
}
CODE
# The recycler's own thread runs while idle objects wait, if need be until the program ends, which does not join it.
cat >thread.supp <<'CODE'
{
   tables of the thread that ends generations
   Memcheck:Leak
   match-leak-kinds: possible
   fun:calloc
   ...
   fun:pthread_create*
   fun:*tarn*caretaker*start*
}
CODE
library_folder=$(dirname "$TARN_LIB")
for checked in 0 1; do
  g++ -std=c++20 -O1 -g -DNDEBUG -DTARN_CHECKED_POOLS=$checked -DTARN_RECYCLER_DROPS=0 -pthread -I"$include" work.cpp \
    "$library_folder/libtarn-api.so" -Wl,-rpath,"$library_folder" -o work || fail "the program cannot be built"
  without 60 ./work >plain.txt 2>plain.err || fail "the program fails without valgrind (status $?)"
  without 300 valgrind --leak-check=full --errors-for-leak-kinds=definite,indirect,possible --suppressions=thread.supp \
    --error-exitcode=9 \
    ./work >out.txt 2>err.txt ||
    { grep -v '^$' err.txt | head -n 40 >&2; fail "memcheck reports an error in a correct program, checked=$checked"; }
  compare "output, checked=$checked" plain.txt out.txt
done
without 60 valgrind --error-exitcode=9 ./work wrong >out.txt 2>err.txt
status=$?
[ $status = 9 ] && grep -q 'Invalid read' err.txt || fail "memcheck misses a read of a destroyed object ($status)"
same "a program with pools and a recycler under memcheck"
