// SPDX-License-Identifier: MIT
// pool_resource: containers of std::pmr take their memory from one resource that all threads share, and
// local_pool_resource one for a single thread: no container type changes, and all memory ends with the resource.
#include <tarn/resources.hpp>

#include <cstdio>
#include <map>
#include <memory_resource>
#include <string>
#include <thread>
#include <vector>

namespace {

using text_map = std::pmr::map<int, std::pmr::string>;

void fill(text_map& out, int from) {
  for (int i = from; i < from + 10'000; ++i)
    out.emplace(i, "a text that is too long for the string's own space");
}

}  // namespace

int main() {
  tarn::pool_resource shared;
  std::vector<text_map> parts;
  for (int i = 0; i < 4; ++i) parts.emplace_back(&shared);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back(fill, std::ref(parts[static_cast<std::size_t>(i)]), i * 10'000);
  for (std::thread& one : threads) one.join();
  std::size_t entries = 0;
  for (const text_map& part : parts) entries += part.size();
  std::printf("%zu entries in one resource, %zu blocks live\n", entries, shared.stats().live);

  tarn::local_pool_resource request;
  {
    text_map answers(&request);
    fill(answers, 0);
    std::printf("%zu entries of one request\n", answers.size());
  }
  std::printf("after the request: %zu blocks live\n", request.stats().live);
}
