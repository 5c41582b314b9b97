// SPDX-License-Identifier: MIT
#include "profiler/analyze/debug_index.hpp"

#include <dwarf.h>

#include <algorithm>

#include "profiler/analyze/function_name.hpp"

namespace tarn::profiler {

namespace {

constexpr int deepest = 200;  // of nested entries; no compiler comes near it

// Calls take(start, end) for each range of code of the entry.
template <class Take>
void for_each_range(Dwarf_Die& die, Take take) {
  Dwarf_Addr base = 0, start = 0, end = 0;
  ptrdiff_t offset = 0;
  while ((offset = dwarf_ranges(&die, offset, &base, &start, &end)) > 0) {
    // Functions that the linker left out begin at 0.
    if (start < end && start != 0) take(start, end);
  }
}

template <class Visit>
void for_each_child(Dwarf_Die& parent, Visit visit) {
  Dwarf_Die child;
  if (dwarf_child(&parent, &child) != 0) return;
  do {
    if (!visit(child)) return;
  } while (dwarf_siblingof(&child, &child) == 0);
}

bool is_class(int tag) {
  return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

const char* text_of(Dwarf_Die& die, unsigned attribute) {
  Dwarf_Attribute found;
  return dwarf_formstring(dwarf_attr_integrate(&die, attribute, &found));
}

std::uint64_t number_of(Dwarf_Die& die, unsigned attribute) {
  Dwarf_Attribute found;
  Dwarf_Word value = 0;
  if (dwarf_formudata(dwarf_attr(&die, attribute, &found), &value) != 0) return 0;
  return value;
}

// The entry where the function was declared, which gives its scope: follows abstract origins and out-of-class
// definitions.
Dwarf_Die declaration_of(Dwarf_Die die) {
  for (int steps = 0; steps < 8; ++steps) {
    Dwarf_Attribute found;
    Dwarf_Attribute* link = dwarf_attr(&die, DW_AT_abstract_origin, &found);
    if (link == nullptr) link = dwarf_attr(&die, DW_AT_specification, &found);
    Dwarf_Die next;
    if (link == nullptr || dwarf_formref_die(link, &next) == nullptr) break;
    die = next;
  }
  return die;
}

// Whether names in this unit may lack their scopes, so that these must be added.
bool has_scopes(Dwarf_Die& die) {
  Dwarf_Die unit;
  if (dwarf_diecu(&die, &unit, nullptr, nullptr) == nullptr) return false;
  switch (dwarf_srclang(&unit)) {
    case DW_LANG_C:
    case DW_LANG_C89:
    case DW_LANG_C99:
    case DW_LANG_C11:
    case DW_LANG_Mips_Assembler: return false;
    default: return true;
  }
}

// The path of a source file of the unit; "": none. In DWARF 5 it may be relative to the folder of the compilation.
std::string path_of(Dwarf_Die& unit, const char* file) {
  if (file == nullptr || *file == 0) return {};
  const char* const folder = *file == '/' ? nullptr : text_of(unit, DW_AT_comp_dir);
  return folder == nullptr ? file : std::string(folder) + '/' + file;
}

}  // namespace

debug_index::debug_index(Dwarf* debug) : debug_(debug) {
  Dwarf_CU* at = nullptr;
  unit next;
  std::uint8_t kind = 0;
  while (dwarf_get_units(debug_, at, &at, nullptr, &kind, &next.die, &next.inner) == 0) {
    if (kind != DW_UT_compile && kind != DW_UT_skeleton) continue;
    if (kind == DW_UT_compile || dwarf_tag(&next.inner) == DW_TAG_invalid) next.inner = next.die;
    const std::size_t index = units_.size();
    for_each_range(next.die, [&](std::uint64_t start, std::uint64_t end) {
      unit_ranges_.push_back({start, end, index});
    });
    units_.push_back(next);
  }
  std::sort(unit_ranges_.begin(), unit_ranges_.end(),
            [](const range& a, const range& b) { return a.start < b.start; });
}

const debug_index::range* debug_index::find(const range_index& ranges, std::uint64_t address) {
  auto next = std::upper_bound(ranges.begin(), ranges.end(), address,
                               [](std::uint64_t value, const range& each) { return value < each.start; });
  // Nearly always the range just before; a few more steps for nested ranges.
  for (int steps = 0; next != ranges.begin() && steps < 8; ++steps) {
    --next;
    if (address < next->end) return &*next;
  }
  return nullptr;
}

debug_index::unit* debug_index::unit_at(std::uint64_t address) {
  const range* found = find(unit_ranges_, address);
  return found == nullptr ? nullptr : &units_[found->owner];
}

void debug_index::add_function(unit& where, Dwarf_Die& die) {
  const std::size_t index = where.dies.size();
  bool any = false;
  for_each_range(die, [&](std::uint64_t start, std::uint64_t end) {
    where.functions.push_back({start, end, index});
    any = true;
  });
  if (any) where.dies.push_back(die);
}

void debug_index::visit_children(unit& where, Dwarf_Die& parent, bool deep, int depth) {
  if (depth > deepest) return;
  for_each_child(parent, [&](Dwarf_Die& child) {
    const int tag = dwarf_tag(&child);
    if (tag == DW_TAG_subprogram) add_function(where, child);
    if (tag == DW_TAG_namespace || tag == DW_TAG_module ||
        (deep && (tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block || is_class(tag)))) {
      visit_children(where, child, deep, depth + 1);
    }
    return true;
  });
}

void debug_index::index_functions(unit& where, bool deep) {
  where.functions.clear();
  where.dies.clear();
  visit_children(where, where.inner, deep, 0);
  where.indexed = true;
  where.walked = deep;
  std::sort(where.functions.begin(), where.functions.end(),
            [](const range& a, const range& b) { return a.start < b.start; });
}

bool debug_index::function_at(unit& where, std::uint64_t address, Dwarf_Die& function) {
  if (!where.indexed) index_functions(where, false);
  const range* found = find(where.functions, address);
  if (found == nullptr && !where.walked) {
    index_functions(where, true);
    found = find(where.functions, address);
  }
  if (found == nullptr) return false;
  function = where.dies[found->owner];
  return true;
}

// Adds the scopes below `parent`. Returns the offset after its last entry.
Dwarf_Off debug_index::add_scopes(scope_list& scopes, Dwarf_Die& parent, std::size_t index, int depth) {
  Dwarf_Off last = dwarf_dieoffset(&parent) + 1;
  if (depth > deepest) return last;
  for_each_child(parent, [&](Dwarf_Die& child) {
    const int tag = dwarf_tag(&child);
    last = dwarf_dieoffset(&child) + 1;
    if (tag == DW_TAG_subprogram && dwarf_haschildren(&child) == 0) return true;
    const bool named =
        tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_subprogram || is_class(tag);
    if (!named && tag != DW_TAG_lexical_block) return true;
    std::size_t inner = index;
    if (named) {
      inner = scopes.size();
      const char* name = dwarf_diename(&child);
      const std::string shown = name != nullptr           ? name
                                : tag == DW_TAG_namespace ? "(anonymous namespace)"
                                                          : "{lambda}";
      scopes.push_back({last - 1, last, shown, index});
    }
    last = add_scopes(scopes, child, inner, depth + 1);
    if (named) scopes[inner].end = last;
    return true;
  });
  return last;
}

const debug_index::scope_list& debug_index::scopes_of(Dwarf_Die& die) {
  const auto [place, is_new] = scopes_.try_emplace(die.cu);
  scope_list& scopes = place->second;
  if (is_new) {
    Dwarf_Die whole;
    scopes.push_back({0, ~Dwarf_Off{0}, "", 0});
    if (dwarf_diecu(&die, &whole, nullptr, nullptr) != nullptr) add_scopes(scopes, whole, 0, 0);
  }
  return scopes;
}

std::string debug_index::qualified_name(Dwarf_Die& declaration, const char* name) {
  const scope_list& scopes = scopes_of(declaration);
  const Dwarf_Off offset = dwarf_dieoffset(&declaration);
  // In the order of their beginnings, as the entries are.
  const auto next = std::upper_bound(scopes.begin(), scopes.end(), offset,
                                     [](Dwarf_Off value, const scope& each) { return value < each.begin; });
  auto index = static_cast<std::size_t>(next - scopes.begin()) - 1;
  std::string result = name;
  while (index != 0) {
    const scope& each = scopes[index];
    // Strictly inside: an entry is not within its own scope.
    if (offset > each.begin && offset < each.end) result = each.name + "::" + result;
    index = each.parent;
  }
  return result;
}

std::string debug_index::name_of(Dwarf_Die& function) {
  const auto [place, is_new] = names_.try_emplace(function.addr);
  if (!is_new) return place->second;
  const char* linkage = text_of(function, DW_AT_linkage_name);
  if (linkage == nullptr) linkage = text_of(function, DW_AT_MIPS_linkage_name);
  std::string name;
  if (linkage != nullptr) {
    name = demangled(linkage);
  } else if (const char* plain = text_of(function, DW_AT_name); plain != nullptr) {
    Dwarf_Die declaration = declaration_of(function);
    name = has_scopes(declaration) ? qualified_name(declaration, plain) : plain;
  }
  return names_[function.addr] = name;
}

// The line of the code at the address, which the innermost function contains. Optimisers drop inlined functions and keep
// their lines: where the function is no library's and the line is, the place is the last line before it in the
// function's own file.
void debug_index::set_place(unit& where, std::uint64_t address, Dwarf_Die& function, source_frame& frame) {
  const auto take = [&](Dwarf_Line* line) {
    int number = 0;
    frame.file = path_of(where.die, dwarf_linesrc(line, nullptr, nullptr));
    frame.line = dwarf_lineno(line, &number) == 0 && number > 0 ? static_cast<std::uint32_t>(number) : 0;
  };
  Dwarf_Line* const line = dwarf_getsrc_die(&where.die, address);
  if (line == nullptr) return;
  take(line);
  const std::string own = path_of(where.die, dwarf_decl_file(&function));
  if (own.empty() || !is_library_source(frame.file) || is_library_source(own)) return;
  frame.file = own;
  int declared = 0;
  frame.line =
      dwarf_decl_line(&function, &declared) == 0 && declared > 0 ? static_cast<std::uint32_t>(declared) : 0;
  Dwarf_Lines* lines = nullptr;
  std::size_t count = 0;
  if (dwarf_getsrclines(&where.die, &lines, &count) != 0) return;
  std::uint64_t begin = address;
  for_each_range(function, [&](std::uint64_t start, std::uint64_t end) {
    if (address >= start && address < end) begin = start;
  });
  Dwarf_Addr nearest = 0;
  for (std::size_t index = 0; index < count; ++index) {
    Dwarf_Line* const each = dwarf_onesrcline(lines, index);
    Dwarf_Addr at = 0;
    int number = 0;
    if (dwarf_lineaddr(each, &at) != 0 || at < begin || at > address || at < nearest) continue;
    if (dwarf_lineno(each, &number) != 0 || number <= 0 ||
        own != path_of(where.die, dwarf_linesrc(each, nullptr, nullptr)))
      continue;
    nearest = at;
    take(each);
  }
}

std::vector<source_frame> debug_index::frames_at(std::uint64_t address) {
  unit* where = unit_at(address);
  Dwarf_Die function;
  if (where == nullptr || !function_at(*where, address, function)) return {};
  std::vector<Dwarf_Die> chain = {function};
  // Descend into the block or inlined function that contains the address, as long as there is one.
  for (Dwarf_Die at = function; chain.size() < deepest;) {
    Dwarf_Die inner;
    bool found = false;
    for_each_child(at, [&](Dwarf_Die& child) {
      const int tag = dwarf_tag(&child);
      if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_lexical_block) return true;
      if (dwarf_haspc(&child, address) <= 0) return true;
      inner = child;
      found = true;
      return false;
    });
    if (!found) break;
    if (dwarf_tag(&inner) == DW_TAG_inlined_subroutine) chain.push_back(inner);
    at = inner;
  }
  Dwarf_Files* files = nullptr;
  std::size_t file_count = 0;
  if (dwarf_getsrcfiles(&where->die, &files, &file_count) != 0) files = nullptr;
  std::vector<source_frame> frames;
  for (std::size_t index = chain.size(); index-- > 0;) {
    source_frame frame{.function = name_of(chain[index]), .inlined = index != 0};
    if (index + 1 == chain.size()) {
      set_place(*where, address, chain[index], frame);
    } else {
      Dwarf_Die& inlined = chain[index + 1];
      frame.line = static_cast<std::uint32_t>(number_of(inlined, DW_AT_call_line));
      const std::uint64_t file = number_of(inlined, DW_AT_call_file);
      if (files != nullptr && file < file_count)
        frame.file = path_of(where->die, dwarf_filesrc(files, file, nullptr, nullptr));
    }
    frames.push_back(std::move(frame));
  }
  return frames;
}

std::vector<std::pair<std::uint64_t, std::string>> debug_index::inlined_between(std::uint64_t begin,
                                                                                std::uint64_t end) {
  unit* where = unit_at(begin);
  Dwarf_Die function;
  if (where == nullptr || !function_at(*where, begin, function)) return {};
  std::vector<std::pair<std::uint64_t, std::string>> result;
  const auto visit = [&](const auto& self, Dwarf_Die& parent, int depth) -> void {
    if (depth > deepest) return;
    for_each_child(parent, [&](Dwarf_Die& child) {
      const int tag = dwarf_tag(&child);
      if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_lexical_block) return true;
      std::uint64_t first = end;
      for_each_range(child, [&](std::uint64_t start, std::uint64_t) {
        if (start >= begin && start < first) first = start;
      });
      if (tag == DW_TAG_inlined_subroutine && first < end) result.emplace_back(first, name_of(child));
      self(self, child, depth + 1);
      return true;
    });
  };
  visit(visit, function, 0);
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return result;
}

}  // namespace tarn::profiler
