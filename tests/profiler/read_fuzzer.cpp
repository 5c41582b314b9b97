// SPDX-License-Identifier: MIT
// libFuzzer's way into the reader and the loader. The first byte chooses: an even one, the rest is a file as it is; an odd
// one, the rest is a chunk's payload with a checksum that fits, in a file that is whole otherwise.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "profiler/format/table_file.hpp"
#include "profiler/model/profile.hpp"
#include "tests/profiler/mutate.hpp"
#include "tests/profiler/scratch_file.hpp"

namespace {

using namespace tarn::profiler;

constexpr std::array names = {"meta",           "modules",      "stacks",   "threads", "sites",  "site_sizes",
                              "site_lifetimes", "site_threads", "counters", "symbols", "events", "unknown"};

std::vector<std::uint8_t> file_of(const std::uint8_t* data, std::size_t size) {
  if (size < 5 || data[0] % 2 == 0) return {data + (size == 0 ? 0 : 1), data + size};
  plain_chunk meta;
  meta.name = "meta";
  meta.rows = 1;
  meta.flags = 1;
  // One column of text: kind, coding, name, length, then "2 bytes" and {}.
  meta.payload = {1, 3, 0, 4, 'j', 's', 'o', 'n', 3, 0, 0, 0, 2, '{', '}'};
  plain_chunk chosen;
  chosen.name = names[data[1] % names.size()];
  chosen.flags = data[2] % 8;
  chosen.rows = data[3] | static_cast<std::uint32_t>(data[4]) << 8;
  chosen.payload.assign(data + 5, data + size);
  return put_together({chosen, meta});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static scratch_file file;
  file.set(file_of(data, size));
  try {
    const profile p = load_profile(file.path());
    double sum = cost_of_all(p).total();
    for (const site& one : p.sites) {
      sum += static_cast<double>(frames_of(p, one.stack).size());
      for (const thread_pair& pair : one.threads) {
        if (pair.from >= p.threads.size() || pair.to >= p.threads.size()) std::abort();
      }
    }
    if (sum != sum) std::abort();
  } catch (const profile_error&) {
  }
  try {
    read_tables(file.path(), [](table&&) {});
  } catch (const profile_error&) {
  }
  return 0;
}
