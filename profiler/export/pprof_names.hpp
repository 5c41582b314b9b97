// SPDX-License-Identifier: MIT
// pprof_names: writes the names of functions, their files and lines into a heap profile that a process has written of
// itself (src/observe/heap_profile), which has addresses only. pprof itself finds names only where the program's files
// are, and only those that debugging information or the full symbol table has. Here the files are looked for where the
// process sees them, which may be in a container.
//
// Cost: for the addresses that earlier profiles did not have, as add_symbols().
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/analyze/debug_files.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

class pprof_names {
 public:
  // Of one process.
  explicit pprof_names(std::uint32_t process, symbol_settings settings = {});

  // The profile with names for all addresses that have one; the others stay as they are, for pprof to look for. A profile
  // with names already, or with more than a process can have, gets none. It may be any bytes: it is written anew, with
  // printable texts and without fields that pprof does not know; memory is a small multiple of its length. Neither is
  // packed. Throws profile_error for what is no message.
  std::string add(std::string_view profile);

 private:
  void look_up(std::vector<module_info> modules, const std::vector<std::uint64_t>& addresses);

  std::uint32_t process_;
  symbol_settings settings_;
  // What is known from earlier profiles: of addresses in these modules. An address without a name has an empty list.
  std::vector<module_info> modules_;
  std::map<std::uint64_t, std::vector<source_frame>> symbols_;  // by the address in the profile
};

}  // namespace tarn::profiler
