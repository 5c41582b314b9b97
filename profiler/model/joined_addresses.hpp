// SPDX-License-Identifier: MIT
// joined_addresses: one address space for the code of several processes, so that their call paths can be compared: a
// place in a file has one address there, wherever each process had loaded the file.
//
// An address is joined by file (path and build-id) and offset. Where a file has been met with another build-id before, or
// where no file is known (code made at run time), it is joined by its symbol: function, source file and line. What has
// neither stays an address of its own, with the name that its profile gave it.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

class joined_addresses {
 public:
  // The address here of each address in p.stacks, in their order.
  std::vector<std::uint64_t> take_in(const profile& p);

  // Of all that was taken in.
  const std::vector<module_info>& modules() const noexcept { return modules_; }
  const std::map<std::uint64_t, std::vector<source_frame>>& symbols() const noexcept { return symbols_; }

 private:
  using file_key = std::pair<std::string, std::string>;  // path, build-id

  std::uint64_t address_of(const profile& p, const module_info* module, std::uint64_t address);
  std::uint64_t place_in(const module_info& module, std::uint64_t address);
  std::uint64_t place_by_symbol(const std::string& path, const std::vector<source_frame>& frames,
                                std::uint64_t otherwise);
  std::uint64_t new_address() { return next_nameless_ += 16; }
  void keep_symbol(std::uint64_t address, const std::vector<source_frame>& frames);

  std::vector<module_info> modules_;
  std::map<std::uint64_t, std::vector<source_frame>> symbols_;
  std::map<file_key, std::pair<std::uint64_t, std::uint64_t>> files_;                    // [begin, end) here
  std::map<std::string, std::string> first_builds_;                                      // build-id by path
  std::map<std::tuple<std::string, std::string, std::uint64_t>, std::size_t> segments_;  // of modules_
  std::unordered_map<std::string, std::uint64_t> by_symbol_;
  std::uint64_t next_file_ = std::uint64_t{1} << 32;
  std::uint64_t next_nameless_ = 0;  // below all files
};

}  // namespace tarn::profiler
