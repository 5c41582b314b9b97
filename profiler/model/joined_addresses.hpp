// SPDX-License-Identifier: MIT
// joined_addresses: one common address space for the code of several processes, so that their call paths can be
// compared: a position in a file has one address there, wherever each process has loaded the file.
//
// An address is mapped by file (path and build-id) and offset. If the path was met with another build-id before, or
// if the file is not known (code generated at run time), it is mapped by its symbol: function, source file and
// line. An address with neither gets an address of its own, with the name from its profile. Lines of scripts keep theirs,
// which is the same in each process (script_address.hpp). Not thread-safe.
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
  // Returns the common address of each address in p.stacks, in their order.
  std::vector<std::uint64_t> take_in(const profile& p);

  // Of all profiles that were taken in.
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
  std::map<file_key, std::pair<std::uint64_t, std::uint64_t>> files_;  // common addresses [begin, end)
  std::map<std::string, std::string> first_builds_;                    // build-id by path
  // Index into modules_
  std::map<std::tuple<std::string, std::string, std::uint64_t>, std::size_t> segments_;
  std::unordered_map<std::string, std::uint64_t> by_symbol_;
  std::uint64_t next_file_ = std::uint64_t{1} << 32;
  std::uint64_t next_nameless_ = 0;  // below all files
};

}  // namespace tarn::profiler
