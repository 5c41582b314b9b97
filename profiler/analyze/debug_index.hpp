// SPDX-License-Identifier: MIT
// debug_index: finds the functions of an address, inlined ones included, by DWARF. The unit of an address, and the
// function within a unit, are found in sorted ranges, built once; only the tree of that one function is then
// walked. Not thread-safe.
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

  // The functions at the address, innermost first; empty if DWARF has none there.
  std::vector<source_frame> frames_at(std::uint64_t address);

  // The functions inlined between `begin` and `end` into the function that contains `begin`: the start of their
  // code and their names, in that order, outer ones first.
  std::vector<std::pair<std::uint64_t, std::string>> inlined_between(std::uint64_t begin, std::uint64_t end);

 private:
  struct range {
    std::uint64_t start, end;
    std::size_t owner;  // index of a unit, or of a function of a unit
  };
  // Sorted by start. Ranges do not overlap, except by errors in the debugging information.
  using range_index = std::vector<range>;

  // A namespace, class or function, with the offsets [begin, end) of everything in it.
  struct scope {
    Dwarf_Off begin = 0, end = 0;
    std::string name;
    std::size_t parent = 0;  // its own index: none
  };

  struct unit {
    Dwarf_Die die{};    // entry in the file itself: ranges and lines
    Dwarf_Die inner{};  // entry with the tree of functions: a different one with -gsplit-dwarf
    bool indexed = false;
    bool walked = false;  // whether nested functions (in classes within functions) were included, too
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

  static void set_place(unit& where, std::uint64_t address, Dwarf_Die& function, source_frame& frame);

  static const range* find(const range_index& ranges, std::uint64_t address);

  Dwarf* debug_;
  std::vector<unit> units_;
  range_index unit_ranges_;
  std::map<Dwarf_CU*, scope_list> scopes_;
  std::map<void*, std::string> names_;  // by the entry's address in memory
};

}  // namespace tarn::profiler
