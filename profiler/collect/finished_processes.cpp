// SPDX-License-Identifier: MIT
#include "profiler/collect/finished_processes.hpp"

#include <algorithm>
#include <utility>

#include "profiler/analyze/symbols.hpp"

namespace tarn::profiler {

void finished_processes::add(const recorded_process& process) {
  lost_ += process.result().lost_events;
  summaries_.push_back(summary_of(process.result()));
  summaries_.back().path = process.path();
  summaries_.back().has_own_file = true;
}

void finished_processes::keep(std::unique_ptr<recorded_process> process) {
  if (process->path().empty()) return;
  process->close();
  ended_.push_back(std::move(process));
}

std::string finished_processes::name_of_program() const {
  const auto root = std::find_if(summaries_.begin(), summaries_.end(), [this](const process_summary& one) {
    return one.process == around_.main_process && one.has_own_file;
  });
  return root == summaries_.end() ? "program" : root->command;
}

// False: a file of that name exists already.
bool finished_processes::write_small_file(const profile& parts, const std::string& path) {
  std::string problem;
  try {
    table_writer file(path, table_writer::start::fresh);
    store_profile(file, parts);
    for (process_summary& each : small_.groups()) each.path = path;
  } catch (const file_exists&) {
    return false;
  } catch (const profile_error& error) {
    problem = error.what();
  }
  around_.files.add({path, "small processes", 0, problem});
  return true;
}

void finished_processes::write_small() {
  if (small_.empty()) return;
  process_summary all;
  for (const process_summary& each : small_.groups()) all.add(each);
  profile parts = small_.take();
  // A group's cost as its part of the merged file has it: the limit of a cost to a process's time is applied to the
  // whole group there.
  const std::vector<profile> figures = figures_by_process(parts);
  for (std::size_t group = 0; group < figures.size(); ++group)
    small_.groups()[group].charged = cost_of_all(figures[group]);
  if (output_files::is_worth_one(all.allocations, all.bytes, all.faults)) {
    add_symbols(parts, around_.settings.symbols);
    const auto path = [this](int number) {
      return around_.files.name(name_of_program(), around_.main_process, "-small", number);
    };
    for (int number = 1; number <= output_files::most_names && !write_small_file(parts, path(number));
         ++number) {
    }
  }
  summaries_.insert(summaries_.end(), small_.groups().begin(), small_.groups().end());
}

void finished_processes::finish_file(recorded_process& process) {
  const auto costliest = std::find_if(summaries_.begin(), summaries_.end(),
                                      [](const process_summary& one) { return one.has_own_file; });
  const bool is_costliest = costliest != summaries_.end() && costliest->path == process.path();
  auto whole = std::make_unique<profile>(process.finish_file());
  if (!process.is_main() && !is_costliest) return;
  make_printable(*whole);
  (process.is_main() ? main_profile_ : costliest_profile_) = std::move(whole);
}

void finished_processes::finish() {
  write_small();
  std::stable_sort(summaries_.begin(), summaries_.end(),
                   [](const process_summary& left, const process_summary& right) {
                     return left.charged.total() > right.charged.total();
                   });
  for (auto& process : ended_) {
    finish_file(*process);
    process.reset();
  }
  ended_.clear();
}

}  // namespace tarn::profiler
