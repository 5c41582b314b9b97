// SPDX-License-Identifier: MIT
// Pools and AddressSanitizer: a use after destroy is reported; nothing is reported in a correct program in which memory
// moves between pools, malloc and whole pages; and memory that only objects of pools point to is no leak.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "program.hpp"
#include "tarn/detail/pages.hpp"
#include "tarn/pool.hpp"

namespace {

using pools_test::order;

constexpr auto pool = tarn::pool_of<order>();

template <class Function>
std::string standard_error_of(Function function) {
  int ends[2];
  if (pipe(ends) != 0) guarantee::skip("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    close(ends[0]);
    alarm(60);
    function();
    exit(guarantee::holds);  // not _exit: leaks are reported at exit
  }
  close(ends[1]);
  char text[4096];
  std::string all;
  for (ssize_t got = 0; (got = read(ends[0], text, sizeof text)) > 0;)
    all.append(text, static_cast<std::size_t>(got));
  close(ends[0]);
  const auto result = guarantee::wait_for(child);
  return result.good() ? all : all + "\n(it failed)";
}

template <class Pool>
void expect_report(const char* what, const Pool& of, std::size_t offset) {
  const std::string text = standard_error_of([&of, offset] {
    order* const object = of.create(1U);
    of.destroy(object);
    *(guarantee::hide(reinterpret_cast<char*>(object)) + offset) = 1;
  });
  TARN_CHECK(text.find("AddressSanitizer: use-after-poison") != std::string::npos,
             "a write after destroy to an object of %s is not reported: \"%s\"", what, text.c_str());
}

// The same memory serves pools, malloc's blocks and whole pages, one after another.
void pass_memory_on() {
  for (int round = 0; round < 5; ++round) {
    std::vector<order*> objects;
    for (std::uint64_t i = 0; i < 50000; ++i) objects.push_back(pool.create(i));
    for (order* each : objects) pool.destroy(each);
    pool.trim();
    std::size_t bytes = 4 * guarantee::mib;
    void* const pages = tarn_pages_take(&bytes);
    memset(pages, 1, bytes);
    void* const block = tarn_malloc(3 * guarantee::mib);
    memset(block, 1, 3 * guarantee::mib);
    tarn_pages_give(pages);
    tarn_free(block);
    tarn::object_pool<std::string> strings;
    std::vector<std::string*> texts;
    for (int i = 0; i < 50000; ++i) texts.push_back(strings.create("x"));
    for (std::string* each : texts) strings.destroy(each);
    tarn::local_pool<int> numbers;  // objects of 4 bytes: the sanitizer poisons in units of 8
    std::vector<int*> all;
    for (int i = 0; i < 1000; ++i) all.push_back(numbers.create(i));
    for (int i = 0; i < 1000; i += 2) numbers.destroy(all[static_cast<std::size_t>(i)]);
    for (int i = 1; i < 1000; i += 2) {
      int* const each = all[static_cast<std::size_t>(i)];
      TARN_CHECK(*each == i, "a number was overwritten");
      numbers.destroy(each);
    }
  }
}

// The only pointer to the text is in an object of a pool.
struct holder {
  std::unique_ptr<std::string> text = std::make_unique<std::string>(100, 'x');
};
holder* reachable = nullptr;

}  // namespace

int main() {
  guarantee::start();
  std::string text = standard_error_of(pass_memory_on);
  TARN_CHECK(text.empty(), "a program without errors: %s", text.c_str());
  if (!pools_test::under_asan) guarantee::skip("reports need AddressSanitizer");

  tarn::object_pool<order> own;
  const tarn::local_pool<order> local;
  for (const std::size_t offset : {0U, 63U}) {
    expect_report("the process-wide pool", pool, offset);
    expect_report("a pool of one's own", own, offset);
    expect_report("a local pool", local, offset);
  }
  text = standard_error_of([] { reachable = tarn::pool_of<holder>().create(); });
  TARN_CHECK(text.empty(), "what an object of a pool points to is taken for a leak: %s", text.c_str());
}
