// SPDX-License-Identifier: MIT
// free_state_owner: which tier should own the state of a span's free objects? One small allocator in seven variants
// that differ only in their span tier; see docs/design/0001-free-state-ownership.md.
// Prints tables: median [min..max] over the rounds; variants run in random order within each round.
#include <functional>

#include "free_state_workloads.hpp"
#include "tier_central.hpp"
#include "tier_owner.hpp"
#include "tier_shared.hpp"

namespace {

using namespace experiment;

struct tables {
  table cpu;
  table wall;
  table memory;
};

template <template <std::size_t> typename tier>
void run_one(const options& how, tables& to, const std::string& row) {
  const std::string name = tier<64>::name;
  if (row.starts_with("shuffled T=")) {
    const auto threads = static_cast<unsigned>(std::stoul(row.substr(11)));
    const elapsed result = shuffled_return<tier<64>>(threads, how.scale);
    to.cpu.add(row, name, result.cpu_ns);
    to.wall.add(row, name, result.wall_ns);
  } else if (row == "tier alone") {
    const tier_result result = tier_alone<tier<64>>(how.scale);
    to.cpu.add(row + ": refill", name, result.refill_ns);
    to.cpu.add(row + ": flush", name, result.flush_ns);
  } else if (row == "reinsert") {
    const reinsert_result result = reinsert<tier<32>>(how.scale);
    to.cpu.add("reinsert: erase", name, result.erase_ns);
    to.cpu.add("reinsert: insert again", name, result.insert_again_ns);
  } else if (row.starts_with("steady T=")) {
    const auto threads = static_cast<unsigned>(std::stoul(row.substr(9)));
    const elapsed result = steady<tier<64>>(threads, how.scale);
    to.cpu.add(row, name, result.cpu_ns);
    to.wall.add(row, name, result.wall_ns);
  } else if (!tier<64>::shares) {
    return;  // with an array per thread, the objects that one thread only frees would pile up
  } else if (row.starts_with("ring")) {
    const ring_result result = ring<tier<64>>(row == "ring" ? 8 : 0, how.scale);
    to.cpu.add(row + ": allocate", name, result.allocate_ns);
    to.cpu.add(row + ": release", name, result.release_ns);
    to.memory.add(row + ": peak MB", name, result.peak_megabytes);
  } else {
    const piling_result result = piling<tier<64>>(how.scale);
    to.cpu.add("piling: consumer's free", name, result.free_ns);
    to.memory.add("piling: MB held, producer asleep", name, result.held_producer_asleep);
    to.memory.add("piling: MB held, producer ended", name, result.held_producer_ended);
  }
}

void run_row(const options& how, tables& to, const std::string& row, rng& random) {
  using variant = std::function<void()>;
  std::vector<variant> variants = {
      [&] { run_one<bare_array_tier>(how, to, row); },   [&] { run_one<single_lock_tier>(how, to, row); },
      [&] { run_one<owner_tier>(how, to, row); },        [&] { run_one<words_tier>(how, to, row); },
      [&] { run_one<bytes_tier>(how, to, row); },        [&] { run_one<striped_tier>(how, to, row); },
      [&] { run_one<locked_bytes_tier>(how, to, row); },
  };
  shuffle(variants, random);
  for (const variant& each : variants) each();
}

}  // namespace

int main(int count, char** words) {
  const options how = parse(count, words);
  check<single_lock_tier<64>>();
  check<striped_tier<64>>();
  check<locked_bytes_tier<64>>();
  check<owner_tier<64>>();
  check<words_tier<64>>();
  check<bytes_tier<64>>();
  const std::vector<std::string> rows = {"tier alone",   "shuffled T=1", "shuffled T=2", "shuffled T=4",
                                         "shuffled T=8", "reinsert",     "ring",         "ring, no depot",
                                         "steady T=1",   "steady T=2",   "piling"};
  tables results;
  const std::vector<std::string> names = {bare_array_tier<64>::name, single_lock_tier<64>::name,
                                          striped_tier<64>::name,    locked_bytes_tier<64>::name,
                                          owner_tier<64>::name,      words_tier<64>::name,
                                          bytes_tier<64>::name};
  results.cpu.expect({}, names);
  results.wall.expect({}, names);
  results.memory.expect({}, {names.begin() + 1, names.end()});
  rng random(static_cast<std::uint64_t>(now_ns()));
  for (unsigned round = 0; round < how.rounds; ++round) {
    for (const std::string& row : rows)
      if (row.find(how.only) != std::string::npos) run_row(how, results, row, random);
  }
  results.cpu.print("processor time per pair (or per step named), ns, median [min..max]");
  results.wall.print("wall time / all pairs, ns");
  results.memory.print("memory, MB in spans");
}
