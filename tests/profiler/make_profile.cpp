// SPDX-License-Identifier: MIT
// Writes the synthetic profile to a file, for tests of the command. With a million events or more, it also prints to
// standard error how many events per second of processor time were written and read.
//   make_profile FILE [EVENTS [SITES [SEED [sample|full|faults [nosymbols|deep|hostile]]]]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <string>

#include "profiler/format/table_file.hpp"
#include "profiler/model/store_profile.hpp"
#include "tests/profiler/synthetic_profile.hpp"

namespace {

using namespace tarn::profiler;

double processor_seconds() {
  struct timespec now {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

int run(int count, char** words) {
  if (count < 2) {
    std::fprintf(
        stderr,
        "usage: make_profile FILE [EVENTS [SITES [SEED [sample|full|faults [nosymbols|deep|hostile]]]]]\n");
    return 2;
  }
  const std::string path = words[1];
  const std::size_t events = count > 2 ? std::strtoull(words[2], nullptr, 10) : 10000;
  synthetic_options options;
  if (count > 3) options.sites = std::strtoull(words[3], nullptr, 10);
  if (count > 4) options.seed = std::strtoull(words[4], nullptr, 10);
  if (count > 5 && std::strcmp(words[5], "sample") == 0) options.mode = profile_mode::sample;
  if (count > 5 && std::strcmp(words[5], "faults") == 0) options.mode = profile_mode::faults;
  if (count > 6 && std::strcmp(words[6], "nosymbols") == 0) options.symbols = false;
  if (count > 6 && std::strcmp(words[6], "deep") == 0) options.depth = 16;
  if (count > 6 && std::strcmp(words[6], "hostile") == 0) options.hostile = true;
  if (events < 1000000) {
    write_synthetic_profile(path, options, events);
    return 0;
  }
  // Times append() only, not the making of the rows.
  double writing = 0;
  std::uint64_t bytes = 0;
  {
    table_writer out(path);
    synthetic_events source(options.seed);
    std::size_t done = 0;
    while (done < events) {
      const table rows = source.next(std::min<std::size_t>(1 << 18, events - done));
      const double start = processor_seconds();
      out.append(rows);
      writing += processor_seconds() - start;
      done += rows.rows;
    }
    bytes = out.bytes();
    store_profile(out, synthetic_profile(options));
  }
  const double start = processor_seconds();
  std::uint64_t sum = 0;
  std::size_t rows_read = 0;
  const read_outcome outcome = read_tables(
      path,
      [&](table&& rows) {
        for (const column& each : rows.columns) sum += std::get<integers>(each.values).back();
        rows_read += rows.rows;
      },
      [](std::string_view name) { return name == "events"; });
  const double reading = processor_seconds() - start;
  std::fprintf(stderr, "%zu events: %.2f bytes each; written at %.1f M/s, read at %.1f M/s%s (%llu)\n",
               rows_read, static_cast<double>(bytes) / static_cast<double>(events),
               static_cast<double>(events) / writing / 1e6, static_cast<double>(rows_read) / reading / 1e6,
               outcome.damage.c_str(), static_cast<unsigned long long>(sum));
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    return run(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_profile: %s\n", error.what());
    return 1;
  }
}
