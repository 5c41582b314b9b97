// SPDX-License-Identifier: MIT
#include "profiler/analyze/symbols.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "profiler/analyze/debug_index.hpp"
#include "profiler/analyze/elf_module.hpp"
#include "profiler/analyze/function_name.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/model/range_map.hpp"
#include "profiler/model/script_address.hpp"

namespace tarn::profiler {

namespace {

// How many bytes of code after the return address are searched for a constructor of the new object.
constexpr std::size_t constructor_distance = 64;
// Nested allocating calls: operator new, malloc, and wrappers around them.
constexpr std::size_t most_allocating_calls = 4;

struct source_module {
  std::unique_ptr<elf_module> file;
  std::unique_ptr<debug_index> debug;
  std::string problem;
  std::size_t unnamed = 0;  // addresses that remained without a name
};

// Whether the function only allocates for its caller, so that the next outer frame is examined instead.
bool is_helper(std::string_view function) {
  return is_plain_allocation(function) || function.starts_with("std::") ||
         function.starts_with("__gnu_cxx::") || function.starts_with("void* std::");
}

class symboliser {
 public:
  symboliser(profile& p, const symbol_settings& settings) : p_(p), debug_files_(settings) {
    for (const module_info& each : p.modules) modules_.add(each.start, each.end, &each);
  }

  std::vector<std::string> run() {
    std::vector<std::uint64_t> addresses;
    for (std::size_t node = 1; node < p_.stacks.size(); ++node) addresses.push_back(p_.stacks[node].address);
    std::sort(addresses.begin(), addresses.end());
    addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
    for (const std::uint64_t address : addresses) add_symbol(address);
    for (site& one : p_.sites) add_type(one);
    return notes();
  }

 private:
  struct place {
    source_module* source;
    std::uint64_t address;  // in the file, as the linker gave it, of the byte before the return address
  };

  source_module& source_of(const module_info& module) {
    const auto [at, is_new] = sources_.try_emplace({module.path, module.build_id});
    source_module& source = at->second;
    if (!is_new) return source;
    if (!module.path.starts_with('/')) {
      source.problem = "it is not a regular file";
      return source;
    }
    source.file = elf_module::open(module.path, module.build_id, debug_files_, source.problem);
    Dwarf* debug = source.file ? source.file->debug_information() : nullptr;
    if (debug != nullptr) source.debug = std::make_unique<debug_index>(debug);
    return source;
  }

  std::optional<place> place_of(std::uint64_t return_address) {
    if (return_address == 0) return std::nullopt;
    const std::uint64_t address = return_address - 1;
    const module_info* const* const found = modules_.at(address);
    if (found == nullptr) return std::nullopt;
    const module_info& module = **found;
    source_module& source = source_of(module);
    const auto linked =
        source.file ? source.file->address_at(address - module.start + module.file_offset) : std::nullopt;
    if (!linked) {
      ++source.unnamed;
      return std::nullopt;
    }
    return place{&source, *linked};
  }

  void add_symbol(std::uint64_t return_address) {
    const auto at = place_of(return_address);
    if (!at) return;
    std::vector<source_frame> frames;
    if (at->source->debug) frames = at->source->debug->frames_at(at->address);
    const bool nameless = std::any_of(frames.begin(), frames.end(),
                                      [](const source_frame& each) { return each.function.empty(); });
    if (frames.empty() || nameless) {
      const elf_symbol* symbol = at->source->file->function_at(at->address);
      if (frames.empty()) frames.emplace_back();
      // Inlined functions have no symbol of their own.
      for (source_frame& each : frames) {
        if (each.function.empty()) each.function = symbol == nullptr ? "" : demangled(symbol->name);
      }
      if (symbol == nullptr) {
        ++at->source->unnamed;
        return;
      }
    }
    if (at->source->debug) name_tarn(frames, at->source->file->function_at(at->address));
    // A file's symbols may be any bytes, and views name addresses after load_profile() has made the rest printable.
    for (source_frame& each : frames) {
      each.function = printable(each.function);
      each.file = printable(each.file);
    }
    p_.symbols[return_address] = std::move(frames);
  }

  // The archive's code in a program: its debugging information (-g1) has no namespaces, and its symbols have. Into a template
  // the program's own functions may be inlined.
  static void name_tarn(std::vector<source_frame>& frames, const elf_symbol* symbol) {
    const std::string_view name = symbol != nullptr ? symbol->name : "";
    if (!name.starts_with("_ZN4tarn") && !name.starts_with("_ZNK4tarn")) return;
    if (demangled(symbol->name).find('<') != std::string::npos) return;
    for (source_frame& each : frames)
      if (each.function.starts_with("(anonymous namespace)::") ||
          each.function.find("::") == std::string::npos)
        each.function = "tarn::" + each.function;
  }

  void add_type(site& one) {
    std::uint32_t node = one.stack;
    for (std::size_t calls = 0; node != 0 && calls < most_allocating_calls; ++calls) {
      const std::uint64_t address = p_.stacks[node].address;
      const auto found = p_.symbols.find(address);
      if (found == p_.symbols.end()) return;
      bool all_plain = true;
      std::string type;
      for (const source_frame& frame : found->second) {
        // Of allocators that call one another, the outermost counts: inner ones may be folded with equal code of
        // other types.
        std::string named = allocated_type(frame.function);
        if (!named.empty() && (type.empty() || is_allocate(frame.function))) type = std::move(named);
        all_plain = all_plain && is_plain_allocation(frame.function);
        if (!is_helper(frame.function) || (!type.empty() && !is_allocate(frame.function))) break;
      }
      if (!type.empty()) {
        const type_evidence evidence = check_folding(type, found->second, p_.stacks[node].parent);
        return set_type(one, type, evidence);
      }
      if (!all_plain) return set_type(one, constructor_behind(address), type_evidence::constructor);
      node = p_.stacks[node].parent;
    }
  }

  // The linker may fold two functions with equal code into one (ICF): push_back of vector<double> may run as that
  // of vector<long>. But an inlined part at the call site still names the right type; then the type is corrected.
  // If caller and function do not fit together in another way, the type is only a guess.
  type_evidence check_folding(std::string& type, const std::vector<source_frame>& frames,
                              std::uint32_t caller) const {
    const class_template held = class_template_of(frames.back().function);
    const auto found = p_.symbols.find(p_.stacks[caller].address);
    if (held.first_argument.empty() || caller == 0 || found == p_.symbols.end())
      return type_evidence::allocator;
    const std::string& direct = found->second.front().function;
    if (!is_helper(direct) || direct.find(held.first_argument) != std::string::npos)
      return type_evidence::allocator;
    for (const source_frame& frame : found->second) {
      if (!is_helper(frame.function)) break;
      const class_template calling = class_template_of(frame.function);
      if (calling.name != held.name) continue;
      const std::size_t at = type.find(held.first_argument);
      if (at == std::string::npos) break;
      type.replace(at, held.first_argument.size(), calling.first_argument);
      return type_evidence::allocator;
    }
    return type_evidence::constructor;
  }

  static void set_type(site& one, const std::string& type, type_evidence evidence) {
    if (type.empty()) return;
    if (one.evidence != type_evidence::none && one.evidence < evidence) return;
    one.type = printable(type);
    one.evidence = evidence;
  }

  // Cached: many paths end at one call.
  std::string constructor_behind(std::uint64_t return_address) {
    const auto [at, is_new] = constructors_.try_emplace(return_address);
    if (is_new) at->second = find_constructor(return_address);
    return at->second;
  }

  std::string find_constructor(std::uint64_t return_address) {
    const auto at = place_of(return_address);
    if (!at) return {};
    const std::uint64_t begin = at->address + 1;
    std::uint64_t nearest = begin + constructor_distance;
    std::string type;
    if (at->source->debug) {
      for (const auto& [start, function] : at->source->debug->inlined_between(begin, nearest)) {
        type = constructed_type(function);
        if (type.empty()) continue;
        nearest = start;
        break;
      }
    }
    std::string called = called_constructor(*at->source->file, begin, nearest);
    return called.empty() ? type : called;
  }

  // The type of the first call between the two addresses whose target is a constructor's first instruction. Bytes
  // that only look like a call hardly ever lead to one.
  static std::string called_constructor(elf_module& file, std::uint64_t begin, std::uint64_t end) {
    const std::vector<std::uint8_t> code = file.code_at(begin, static_cast<std::size_t>(end - begin) + 4);
    const auto word_at = [&code](std::size_t at) {
      return std::uint32_t{code[at]} | std::uint32_t{code[at + 1]} << 8 | std::uint32_t{code[at + 2]} << 16 |
             std::uint32_t{code[at + 3]} << 24;
    };
    const bool is_arm = file.machine() == EM_AARCH64;
    if (!is_arm && file.machine() != EM_X86_64) return {};
    for (std::size_t at = 0; at + 5 <= code.size(); at += is_arm ? 4 : 1) {
      std::uint64_t target = 0;
      if (is_arm) {
        const std::uint32_t instruction = word_at(at);
        if (instruction >> 26 != 0x25) continue;  // bl
        const auto distance = static_cast<std::int32_t>(instruction << 6) >> 4;
        target = begin + at + static_cast<std::uint64_t>(std::int64_t{distance});
      } else {
        if (code[at] != 0xe8) continue;  // call, relative to its end
        target = begin + at + 5 +
                 static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(word_at(at + 1))});
      }
      const elf_symbol* symbol = file.function_from(target);
      std::string type = symbol == nullptr ? std::string() : constructed_type(demangled(symbol->name));
      if (!type.empty()) return type;
    }
    return {};
  }

  std::vector<std::string> notes() {
    std::vector<std::string> sentences;
    const auto program = p_.meta.is_object() ? p_.meta.find("program") : p_.meta.end();
    for (const auto& [key, source] : sources_) {
      const std::string& path = key.first;
      if (!source.problem.empty() && source.unnamed != 0 && path.starts_with('/')) {
        sentences.push_back(path + ": " + source.problem + ", so its functions are shown as offsets");
      } else if (source.file && !source.debug && program != p_.meta.end() && *program == path) {
        sentences.push_back(
            path +
            " has no debugging information, so lines, inlined functions and types are unknown; compile "
            "it with -g");
      }
    }
    if (!debug_files_.problem().empty()) sentences.push_back(debug_files_.problem());
    if (p_.meta.is_object()) p_.meta["symbol_notes"] = sentences;
    return sentences;
  }

  profile& p_;
  debug_files debug_files_;
  range_map<const module_info*> modules_;
  std::map<std::pair<std::string, std::string>, source_module> sources_;
  std::map<std::uint64_t, std::string> constructors_;
};

}  // namespace

std::vector<std::string> add_symbols(profile& p, const symbol_settings& settings) {
  return symboliser(p, settings).run();
}

bool has_native_symbols(const profile& p) {
  return std::any_of(p.symbols.begin(), p.symbols.end(),
                     [](const auto& one) { return !is_script_address(one.first); });
}

bool lacks_native_symbols(const profile& p) {
  return std::any_of(p.stacks.begin(), p.stacks.end(), [&p](const stack_node& node) {
    return node.address != 0 && p.symbols.count(node.address) == 0 &&
           module_at(p, node.address - 1) != nullptr;
  });
}

}  // namespace tarn::profiler
