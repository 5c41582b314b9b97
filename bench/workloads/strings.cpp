// SPDX-License-Identifier: MIT
// strings: text processing with short-lived strings, vectors and hash maps.
// Models: a tool that splits generated text into words, counts them in a hash map of strings, and builds, joins and
// discards small vectors of cubes: very many short-lived allocations of 16–200 bytes.
// Idea: the single-threaded programs of the Zorn and Grunwald suite (espresso, gawk, perl), which the mimalloc-bench
// suite still runs; here a C++ program that allocates like them.
// Known to favour: short fast paths for LIFO-like lifetimes.
#include <string>
#include <unordered_map>

#include "support.hpp"

namespace {

constexpr std::size_t words_per_text = 1200;
constexpr std::size_t vocabulary = 3000;

std::string make_word(bench::rng& random) {
  std::uint64_t value = random.below(vocabulary);
  std::string word = value % 3 == 0 ? "an-unusually-long-stem-" : "stem-of-a-word-";
  for (; value != 0; value /= 7) word += static_cast<char>('a' + value % 26);
  return word;
}

std::string make_text(bench::rng& random) {
  std::string text;
  for (std::size_t word = 0; word < words_per_text; ++word) text += make_word(random) + ' ';
  return text;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  std::size_t start = 0;
  for (std::size_t end = text.find(' '); end != std::string::npos; end = text.find(' ', start)) {
    words.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return words;
}

// Words become vectors, which are merged in pairs and thrown away, like cubes in a logic minimizer.
std::uint64_t merge_cubes(const std::vector<std::string>& words) {
  std::uint64_t sum = 0;
  std::vector<std::vector<unsigned>> cubes;
  for (const std::string& word : words) {
    cubes.emplace_back(word.size() / 2, static_cast<unsigned>(word.back()));
    if (cubes.size() < 2) continue;
    std::vector<unsigned> merged = cubes.back();
    merged.insert(merged.end(), cubes.front().begin(), cubes.front().end());
    sum += merged.size() + merged.back();
    if (cubes.size() > 40) cubes.erase(cubes.begin(), cubes.begin() + 20);
  }
  return sum;
}

std::uint64_t process(bench::rng& random) {
  const std::vector<std::string> words = split(make_text(random));
  std::unordered_map<std::string, std::vector<std::size_t>> positions;
  for (std::size_t place = 0; place < words.size(); ++place) positions[words[place]].push_back(place);
  std::uint64_t sum = merge_cubes(words);
  for (const std::string& word : words) sum += positions[word].size();
  return sum;
}

}  // namespace

int main(int count, char** words) {
  const bench::arguments options = bench::parse(count, words);
  const std::size_t texts = options.scaled(1300) / options.threads + 1;
  std::atomic<std::uint64_t> checksum{0};
  const double seconds = bench::run_threads(options.threads, [&](unsigned index) {
    bench::rng random(index);
    std::uint64_t sum = 0;
    for (std::size_t text = 0; text < texts; ++text) sum += process(random);
    checksum.fetch_add(sum, std::memory_order_relaxed);
  });
  return bench::report(seconds, checksum.load(std::memory_order_relaxed));
}
