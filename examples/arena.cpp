// SPDX-License-Identifier: MIT
// arena: the objects of one request are allocated by moving a cursor and end together: reset() destroys them all. A
// container of std::pmr takes part through an arena_resource.
#include <tarn/arena.hpp>
#include <tarn/resources.hpp>

#include <cstdio>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

namespace {

int open_files = 0;

// Its destructor must run, and does: create() notes it, and reset() calls it.
struct file {
  file() { ++open_files; }
  ~file() { --open_files; }
  file(const file&) = delete;
  file& operator=(const file&) = delete;
};

struct header {
  std::string_view name;
  std::string_view value;
};

std::size_t handle_request(tarn::arena& memory, tarn::arena_resource& resource, int number) {
  [[maybe_unused]] const file* const log = memory.create<file>();
  // No destructor is needed for what owns nothing outside of the arena.
  auto* const headers = memory.create_without_destructor<std::pmr::vector<header>>(&resource);
  headers->reserve(20);
  for (int i = 0; i < 20; ++i)
    headers->push_back({memory.copy("Header-" + std::to_string(i)), memory.copy(std::to_string(number))});
  return headers->size();
}

}  // namespace

int main() {
  tarn::arena memory;
  tarn::arena_resource resource(memory);
  std::size_t headers = 0;
  for (int number = 0; number < 10'000; ++number) {
    headers += handle_request(memory, resource, number);
    memory.reset();  // ends everything that the request has built; the memory serves the next one
  }
  std::printf("%zu headers, %d files still open\n", headers, open_files);
  std::printf("in use after the last reset: %zu bytes\n", memory.bytes_used());
}
