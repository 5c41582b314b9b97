// SPDX-License-Identifier: MIT
// run_corpus CORPUS: runs a fuzzer's function on its known inputs (one per line, in base64), without libFuzzer, so that
// any compiler can build this test. An input that takes more than 10 seconds of processor time, or more than 1 GiB of
// memory, fails.
#include <sys/resource.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
// The fuzzers' mutators refer to it, but are not called here.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* /*data*/, std::size_t size, std::size_t /*most*/) {
  return size;
}

namespace {

constexpr double most_seconds = 10;
constexpr long most_kilobytes = 1 << 20;

std::vector<std::uint8_t> decoded(const std::string& line) {
  std::vector<std::uint8_t> bytes;
  unsigned bits = 0, pending = 0;
  for (const char letter : line) {
    const std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const std::size_t value = letters.find(letter);
    if (value == std::string_view::npos) break;  // '=': the end
    pending = (pending << 6 | static_cast<unsigned>(value)) & 0xffff;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<std::uint8_t>(pending >> bits));
  }
  return bytes;
}

double processor_seconds(const rusage& used) {
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) return 2;
  std::ifstream file(words[1]);
  std::string line;
  int number = 0;
  while (std::getline(file, line)) {
    ++number;
    const std::vector<std::uint8_t> input = decoded(line);
    rusage before = {}, after = {};
    getrusage(RUSAGE_SELF, &before);
    LLVMFuzzerTestOneInput(input.data(), input.size());
    getrusage(RUSAGE_SELF, &after);
    const double seconds = processor_seconds(after) - processor_seconds(before);
    if (seconds > most_seconds || after.ru_maxrss > most_kilobytes) {
      std::fprintf(stderr, "input %d of %s took %.1f s and %ld MiB\n", number, words[1], seconds,
                   after.ru_maxrss >> 10);
      return 1;
    }
  }
  std::fprintf(stderr, "%d inputs\n", number);
  return number == 0 ? 1 : 0;
}
