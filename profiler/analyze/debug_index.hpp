// SPDX-License-Identifier: MIT
// debug_index: from an address to its functions, those inlined there included, by DWARF. Which unit holds an address, and
// which function of a unit, is found in sorted ranges, made once; only the one function's tree is then walked.
// Not thread-safe.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

class debug_index {
 public:
  explicit debug_index(Dwarf* debug);

  // Innermost first; empty where DWARF knows no function there.
  std::vector<source_frame> frames_at(std::uint64_t address);

  // The functions inlined from `begin` on, before `end`, into the function that holds `begin`: where their code begins, and
  // their name; in that order, outer ones first.
  std::vector<std::pair<std::uint64_t, std::string>> inlined_between(std::uint64_t begin, std::uint64_t end);

 private:
  struct range {
    std::uint64_t start, end;
    std::size_t owner;  // a unit, or a function of a unit
  };
  // Sorted by start. They do not overlap, except where functions lie in functions' ranges by mistake.
  using range_index = std::vector<range>;

  // A namespace, class or function, with all that lies in it: the offsets from `begin` on, before `end`.
  struct scope {
    Dwarf_Off begin = 0, end = 0;
    std::string name;
    std::size_t parent = 0;  // its own index: none
  };

  struct unit {
    Dwarf_Die die{};    // of the file itself: ranges and lines
    Dwarf_Die inner{};  // the tree of functions: another one with -gsplit-dwarf
    bool indexed = false;
    bool walked = false;  // deeply: functions in classes in functions too
    range_index functions;
    std::vector<Dwarf_Die> dies;  // of `functions`
  };

  using scope_list = std::vector<scope>;

  unit* unit_at(std::uint64_t address);
  bool function_at(unit& where, std::uint64_t address, Dwarf_Die& function);
  void index_functions(unit& where, bool deep);
  void visit_children(unit& where, Dwarf_Die& parent, bool deep, int depth);
  void add_function(unit& where, Dwarf_Die& die);
  const scope_list& scopes_of(Dwarf_Die& die);
  static Dwarf_Off add_scopes(scope_list& scopes, Dwarf_Die& parent, std::size_t index, int depth);
  std::string name_of(Dwarf_Die& function);
  std::string qualified_name(Dwarf_Die& declaration, const char* name);

  static const range* find(const range_index& ranges, std::uint64_t address);

  Dwarf* debug_;
  std::vector<unit> units_;
  range_index unit_ranges_;
  std::map<Dwarf_CU*, scope_list> scopes_;
  std::map<void*, std::string> names_;  // by the entry's address in memory
};

}  // namespace tarn::profiler
