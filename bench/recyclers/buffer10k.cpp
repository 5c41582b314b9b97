// SPDX-License-Identifier: MIT
// buffer10k: makes a string, copies 10,000 bytes into it and destroys it; compared with a string that the caller keeps,
// and with one from a recycler.
// Models: the body of a message. The copy is the work; all other time is the price of getting the memory.
// Output: one JSON object: ns, allocations and allocated bytes per string.
#include <string>

#include "counted_malloc.hpp"

namespace {

constexpr std::size_t length = 10'000;
constexpr std::size_t per_call = 500;

using variants = bench::contender_list<bench::fresh, bench::by_hand, bench::recycled>;

char content[length];

void fill(std::string& buffer) {
  const char* from = content;
  bench::obscure(from);
  buffer.append(from, length);
  bench::escape(buffer.data());
}

void run(bench::fresh /*variant*/, const bench::scene_arguments& arguments) {
  bench::report_counted(arguments, per_call, [] {
    std::string buffer;
    fill(buffer);
  });
}

void run(bench::by_hand /*variant*/, const bench::scene_arguments& arguments) {
  std::string buffer;
  bench::escape(&buffer);
  bench::report_counted(arguments, per_call, [&] {
    buffer.clear();
    fill(buffer);
  });
}

void run(bench::recycled /*variant*/, const bench::scene_arguments& arguments) {
  tarn::recycler<std::string> pool;
  bench::escape(&pool);
  bench::report_counted(arguments, per_call, [&] {
    const auto buffer = pool.get();
    fill(*buffer);
  });
}

}  // namespace

int main(int count, char** words) {
  std::memset(content, 'x', sizeof content);
  return bench::run_scene(
      variants(), count, words, "",
      []<class Variant>(const bench::scene_arguments& arguments) { run(Variant(), arguments); });
}
