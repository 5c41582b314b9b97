// SPDX-License-Identifier: MIT
// live_source: snapshots of a program that is being recorded, read from the file that its recording writes: the
// last complete checkpoint. The recording is another process, and is not disturbed. For one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "profiler/collect/jit_code.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::cli {

// The file in which `process` is being recorded; nullopt: it was not started under `tarn profile`, or its recording
// has written nothing yet; `reason` says which.
std::optional<std::string> find_recording_of(pid_t process, std::string& reason);

class live_source {
 public:
  explicit live_source(std::string path) : path_(std::move(path)) {}

  // The next snapshot that is newer than the last one, with the names of its sites; nullopt: there is none yet.
  std::optional<profiler::profile> next();
  const std::string& path() const { return path_; }

 private:
  void add_names(profiler::profile& p);

  std::string path_;
  profiler::jit_code jit_;
  std::uint64_t last_size_ = 0;
  double last_time_ = -1;
  // Cache of symbols by address, and of the allocated types by return address.
  std::map<std::uint64_t, std::vector<profiler::source_frame>> symbols_;
  struct found_type {
    std::string name;
    profiler::type_evidence evidence = profiler::type_evidence::none;
  };
  std::map<std::uint64_t, found_type> types_;
};

}  // namespace tarn::cli
