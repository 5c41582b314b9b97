// SPDX-License-Identifier: MIT
// scope: every query gets a budget. Code that knows nothing of scopes runs in it, and fails as if the machine had no more
// memory; another thread helps with a query; what outlives a query is reported.
#include <tarn/scope.hpp>

#include <cstdio>
#include <map>
#include <new>
#include <string>
#include <thread>

namespace {

// Replaces malloc only where the program links tarn::malloc; here, the calls are tarn's own.
template <class T>
struct charged {
  using value_type = T;
  charged() = default;
  template <class U>
  charged(const charged<U>&) {}  // NOLINT(google-explicit-constructor): as allocators are converted
  T* allocate(std::size_t count) {
    if (void* const block = tarn_malloc(count * sizeof(T))) return static_cast<T*>(block);
    throw std::bad_alloc();
  }
  void deallocate(T* block, std::size_t) { tarn_free(block); }
  bool operator==(const charged&) const = default;
};
using table = std::map<int, int, std::less<>, charged<std::pair<const int, int>>>;

std::size_t fill(table& rows, int first, int count) {
  for (int i = first; i < first + count; ++i) rows[i] = i;
  return rows.size();
}

void run(const char* name, int rows) {
  tarn::scope query("query", {.limit = 1 << 20});
  try {
    const auto in = query.enter();
    table here;
    table there;
    std::thread helper([&there, rows, handle = query.handle()] {
      const auto in_too = tarn::enter(handle);
      fill(there, 0, rows < 1000 ? rows : 1000);
    });
    helper.join();
    std::printf("%s: %zu rows\n", name, fill(here, 0, rows) + there.size());
  } catch (const std::bad_alloc&) {
    std::printf("%s: over its budget\n", name);
  }
  std::printf("%s: %d survivors\n", name, static_cast<int>(query.end().blocks));
}

}  // namespace

int main() {
  run("small", 1000);
  run("large", 1'000'000);
  run("small again", 1000);
}
