// SPDX-License-Identifier: MIT
// Pools of static storage duration that end, at the process's exit, before their objects: stderr names a leak only if
// objects are live when all static destructors have run.
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "program.hpp"
#include "tarn/pool.hpp"

namespace {

using pools_test::order;
using order_ptr = tarn::pool_ptr<order, tarn::owner_deleter<order>>;

// Declared before the pools, so it is destroyed after them.
struct {
  order_ptr shared;
  order_ptr local;
} late;
tarn::object_pool<order> pool({.name = "static orders"});
tarn::local_pool<order> single;

constexpr const char* line =
    "tarn: the pool of static orders ends while 2 objects are live; its memory is not released\n";

void run(const char* mode) {
  if (std::strcmp(mode, "late") == 0) {
    late.shared = pool.make_unique(1U);
    late.local = order_ptr(single.create(2U));
  } else if (std::strcmp(mode, "forgotten") == 0) {
    late.shared = pool.make_unique(1U);
    (void)pool.create(2U);
    (void)pool.create(3U);
  } else if (std::strcmp(mode, "automatic") == 0) {
    tarn::object_pool<order> own({.name = "static orders"});
    (void)own.create(1U);
    (void)own.create(2U);
  }
}

void expect(const char* program, const char* mode, const std::string& expected) {
  const std::string command = "'" + std::string(program) + "' " + mode + " 2>&1 >/dev/null";
  std::unique_ptr<FILE, int (*)(FILE*)> output(popen(command.c_str(), "r"), pclose);
  TARN_CHECK(output != nullptr, "%s cannot be run", program);
  char text[4096] = {};
  const std::size_t length = fread(text, 1, sizeof text - 1, output.get());
  TARN_CHECK(std::string(text, length) == expected, "%s: standard error is \"%s\"", mode, text);
}

}  // namespace

int main(int count, char** words) {
  if (count > 1) {
    run(words[1]);
    return 0;
  }
  guarantee::start();
  expect(words[0], "late", "");
  expect(words[0], "forgotten", line);
  expect(words[0], "automatic", line);
}
