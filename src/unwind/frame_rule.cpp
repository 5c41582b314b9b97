// SPDX-License-Identifier: MIT
// Numbers of instructions: DWARF (DW_CFA_…). Numbers of pointer encodings: Linux Standard Base (DW_EH_PE_…).
#include "unwind/frame_rule.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstring>

#include "base/architecture.hpp"

namespace tarn::unwind {

namespace {

using arch::frame_pointer_register;
using arch::return_register;
using arch::stack_pointer_register;

constexpr unsigned most_states = 8;  // nested remember_state instructions

// Reads bytes in [at, end). A read beyond the end sets `failed`; it and all later reads return 0.
struct reader {
  const unsigned char* at;
  const unsigned char* end;
  bool failed = false;

  template <class number>
  number take() {
    number value = 0;
    if (static_cast<std::size_t>(end - at) < sizeof value) {
      failed = true;
      at = end;
      return 0;
    }
    std::memcpy(&value, at, sizeof value);
    at += sizeof value;
    return value;
  }
  std::uint64_t unsigned_number() { return little_endian_base_128(false); }
  std::int64_t signed_number() { return static_cast<std::int64_t>(little_endian_base_128(true)); }
  std::uint64_t little_endian_base_128(bool is_signed) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = take<std::uint8_t>();
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) != 0) continue;
      if (is_signed && (byte & 0x40) != 0 && shift + 7 < 64) value |= ~std::uint64_t{0} << (shift + 7);
      return value;
    }
    failed = true;
    return 0;
  }
  void skip(std::uint64_t bytes) {
    if (bytes > static_cast<std::uint64_t>(end - at)) {
      failed = true;
      at = end;
    } else {
      at += bytes;
    }
  }
  // A pointer in a DW_EH_PE_ encoding, absolute or relative to its own address. Any other base is ignored; the value is
  // then wrong, and parse_entry() finds that the entry does not contain its `pc`.
  std::uintptr_t pointer(unsigned char encoding) {
    const auto place = reinterpret_cast<std::uintptr_t>(at);
    std::uintptr_t value = 0;
    switch (encoding & 0x0f) {
      case 0x00:
      case 0x04:
      case 0x0c: value = take<std::uint64_t>(); break;
      case 0x02: value = take<std::uint16_t>(); break;
      case 0x03: value = take<std::uint32_t>(); break;
      case 0x0a: value = static_cast<std::uintptr_t>(static_cast<std::intptr_t>(take<std::int16_t>())); break;
      case 0x0b: value = static_cast<std::uintptr_t>(static_cast<std::intptr_t>(take<std::int32_t>())); break;
      case 0x01: value = unsigned_number(); break;
      case 0x09: value = static_cast<std::uintptr_t>(signed_number()); break;
      default: failed = true;
    }
    return (encoding & 0x70) == 0x10 && value != 0 ? value + place : value;
  }
};

// What lies behind the length of an entry. It fails if the entry is damaged or has a 64-bit length.
reader content_of(const unsigned char* entry) {
  reader in{entry, entry + 4};
  const auto length = in.take<std::uint32_t>();
  in.failed = length == 0 || length == 0xffffffff;
  in.end = in.failed ? in.at : in.at + length;
  return in;
}

// Where a register of the caller is: in the register still, in memory, or nowhere.
enum class saved : std::uint8_t { not_here, at_offset, lost };

struct register_rule {
  saved how = saved::not_here;
  std::int64_t offset = 0;  // from the CFA
};

// A row of the unwind table: how to find the CFA and the saved registers at one address.
struct row {
  std::uint64_t cfa_register = 0;
  std::int64_t cfa_offset = 0;
  const unsigned char* cfa_expression = nullptr;
  std::uint64_t expression_bytes = 0;
  register_rule frame_pointer;
  register_rule return_address;
};

// A CIE: what several FDEs have in common.
struct common_entry {
  std::uint64_t code_step = 1;             // code alignment factor
  std::int64_t data_step = 1;              // data alignment factor
  unsigned char pointer_encoding = 0;      // of addresses in the FDEs
  bool signal = false;                     // the FDEs describe signal frames
  bool has_data = false;                   // the FDEs have augmentation data
  const unsigned char* program = nullptr;  // the initial instructions
  const unsigned char* end = nullptr;
};

// False: the entry is damaged, or has a 64-bit length, an unknown version or an unknown augmentation.
bool parse_common_entry(const unsigned char* at, common_entry& out) {
  reader in = content_of(at);
  out.end = in.end;
  if (in.take<std::uint32_t>() != 0 || in.failed) return false;
  const auto version = in.take<std::uint8_t>();
  if (version != 1 && version != 3) return false;
  const auto* augmentation = reinterpret_cast<const char*>(in.at);
  while (!in.failed && in.take<std::uint8_t>() != 0) {
  }
  out.code_step = in.unsigned_number();
  out.data_step = in.signed_number();
  // The number of the return address's register, which is return_register.
  version == 1 ? static_cast<void>(in.take<std::uint8_t>()) : static_cast<void>(in.unsigned_number());
  if (*augmentation == 'z') {
    out.has_data = true;
    const std::uint64_t bytes = in.unsigned_number();
    if (in.failed || bytes > static_cast<std::uint64_t>(in.end - in.at)) return false;
    const unsigned char* after = in.at + bytes;
    for (const char* letter = augmentation + 1; *letter != 0; ++letter) {
      if (*letter == 'R') out.pointer_encoding = in.take<std::uint8_t>();
      if (*letter == 'L') in.skip(1);
      if (*letter == 'P') in.pointer(in.take<std::uint8_t>());
      if (*letter == 'S') out.signal = true;
    }
    in.at = after;
  } else if (*augmentation != 0) {
    return false;
  }
  out.program = in.at;
  return !in.failed;
}

// Runs call frame instructions (DW_CFA_…) up to the row for the address `offset` bytes after the function's start.
class interpreter {
 public:
  interpreter(const common_entry& common, std::uint64_t offset) : common_(common), wanted_(offset) {}

  // True: `now` is the row. False: the instructions are damaged, unknown, or nested too deeply.
  bool run(const unsigned char* begin, const unsigned char* end) {
    reader in{begin, end};
    while (in.at < in.end && !in.failed) {
      const auto opcode = in.take<std::uint8_t>();
      if (!step(in, opcode)) return !in.failed && done_;
    }
    return !in.failed;
  }
  // To be called after the CIE's instructions: `now` is what restore returns to.
  void keep_initial() { initial_ = now; }

  row now;

 private:
  // False: the row has been found (done_), or the instruction cannot be run.
  bool step(reader& in, std::uint8_t opcode) {
    const unsigned operand = opcode & 0x3f;
    switch (opcode & 0xc0) {
      case 0x40: return advance(operand);                                                      // advance_loc
      case 0x80: return set_offset(operand, static_cast<std::int64_t>(in.unsigned_number()));  // offset
      case 0xc0: return restore(operand);
      default: break;
    }
    switch (operand) {
      case 0x00: return true;                               // nop
      case 0x02: return advance(in.take<std::uint8_t>());   // advance_loc1
      case 0x03: return advance(in.take<std::uint16_t>());  // advance_loc2
      case 0x04: return advance(in.take<std::uint32_t>());  // advance_loc4
      case 0x05: {
        const auto number = in.unsigned_number();  // offset_extended
        return set_offset(number, static_cast<std::int64_t>(in.unsigned_number()));
      }
      case 0x06: return restore(in.unsigned_number());                // restore_extended
      case 0x07: return set(in.unsigned_number(), {saved::lost, 0});  // undefined
      case 0x08: return set(in.unsigned_number(), {});                // same_value
      case 0x09: {
        const auto number = in.unsigned_number();  // register
        in.unsigned_number();
        return set(number, {saved::lost, 0});
      }
      case 0x0a:  // remember_state
        if (depth_ == most_states) return false;
        states_[depth_++] = now;
        return true;
      case 0x0b:  // restore_state
        if (depth_ == 0) return false;
        now = states_[--depth_];
        return true;
      case 0x0c:  // def_cfa
        now.cfa_register = in.unsigned_number();
        return set_cfa_offset(static_cast<std::int64_t>(in.unsigned_number()));
      case 0x0d:  // def_cfa_register
        now.cfa_register = in.unsigned_number();
        return true;
      case 0x0e:  // def_cfa_offset
        return set_cfa_offset(static_cast<std::int64_t>(in.unsigned_number()));
      case 0x0f:  // def_cfa_expression
        now.expression_bytes = in.unsigned_number();
        now.cfa_expression = in.at;
        in.skip(now.expression_bytes);
        return true;
      case 0x10:    // expression
      case 0x16: {  // val_expression
        const auto number = in.unsigned_number();
        in.skip(in.unsigned_number());
        return set(number, {saved::lost, 0});
      }
      case 0x11: {  // offset_extended_sf
        const auto number = in.unsigned_number();
        return set_offset(number, in.signed_number());
      }
      case 0x12:  // def_cfa_sf
        now.cfa_register = in.unsigned_number();
        return set_cfa_offset(in.signed_number() * common_.data_step);
      case 0x13:  // def_cfa_offset_sf
        return set_cfa_offset(in.signed_number() * common_.data_step);
      case 0x14:    // val_offset
      case 0x15: {  // val_offset_sf
        const auto number = in.unsigned_number();
        in.signed_number();
        return set(number, {saved::lost, 0});
      }
      case 0x2d:  // AARCH64_negate_ra_state: toggles whether the return address is signed
        return true;
      case 0x2e:  // GNU_args_size
        in.unsigned_number();
        return true;
      default: return false;
    }
  }
  bool advance(std::uint64_t units) {
    location_ += units * common_.code_step;
    done_ = location_ > wanted_;
    return !done_;
  }
  register_rule* rule_of(std::uint64_t number) {
    if (number == frame_pointer_register) return &now.frame_pointer;
    if (number == return_register) return &now.return_address;
    return nullptr;
  }
  bool set(std::uint64_t number, register_rule rule) {
    if (register_rule* known = rule_of(number)) *known = rule;
    return true;
  }
  bool set_offset(std::uint64_t number, std::int64_t units) {
    return set(number, {saved::at_offset, units * common_.data_step});
  }
  bool restore(std::uint64_t number) {
    if (number == frame_pointer_register) now.frame_pointer = initial_.frame_pointer;
    if (number == return_register) now.return_address = initial_.return_address;
    return true;
  }
  bool set_cfa_offset(std::int64_t offset) {
    now.cfa_offset = offset;
    now.cfa_expression = nullptr;
    return true;
  }

  const common_entry& common_;
  std::uint64_t wanted_;
  std::uint64_t location_ = 0;
  bool done_ = false;
  unsigned depth_ = 0;
  row initial_;
  row states_[most_states];
};

// Whether a distance can be kept in 20 bits, in units of 8 bytes (rule_table.cpp).
bool fits(std::int64_t offset) { return offset % 8 == 0 && offset >= 0 && offset < (std::int64_t{1} << 22); }

// Whether the CFA's expression is `breg FP, offset; deref`, as in a function that has realigned its stack.
bool is_realigned(const row& now, std::int32_t& offset) {
  reader in{now.cfa_expression, now.cfa_expression + now.expression_bytes};
  if (in.take<std::uint8_t>() != 0x70 + frame_pointer_register) return false;
  const std::int64_t number = in.signed_number();
  if (in.take<std::uint8_t>() != 0x06 || in.failed || in.at != in.end || number % 8 != 0) return false;
  offset = static_cast<std::int32_t>(number / 8);
  return number > -4096 && number < 4096;
}

frame_rule as_rule(const row& now) {
  frame_rule rule;
  rule.kind = rule_kind::frame_pointer;  // returned for a row that a frame_rule cannot express
  if (now.return_address.how == saved::lost) {
    rule.kind = rule_kind::end;
    return rule;
  }
  if (now.cfa_expression != nullptr) {
    if (is_realigned(now, rule.cfa_offset)) {
      rule.kind = rule_kind::realigned;
      rule.saved_return = 1;
    }
    return rule;
  }
  const bool by_frame = now.cfa_register == frame_pointer_register;
  if (!by_frame && now.cfa_register != stack_pointer_register) return rule;
  if (!fits(now.cfa_offset) || now.frame_pointer.how == saved::lost) return rule;
  if (now.frame_pointer.how == saved::at_offset) {
    if (!fits(-now.frame_pointer.offset)) return rule;
    rule.saved_frame_pointer = static_cast<std::int32_t>(-now.frame_pointer.offset / 8);
  }
  if (now.return_address.how == saved::at_offset) {
    if (!fits(-now.return_address.offset)) return rule;
    rule.saved_return = static_cast<std::int32_t>(-now.return_address.offset / 8);
  }
  rule.cfa_offset = static_cast<std::int32_t>(now.cfa_offset / 8);
  rule.from_frame_pointer = by_frame;
  rule.kind = rule_kind::usual;
  return rule;
}

// _dl_find_object (glibc 2.35 and newer) takes no lock. It is looked up when the library is loaded, because dlsym takes
// the dynamic linker's lock.
constinit std::atomic<object_finder> find_object{nullptr};

[[gnu::constructor(101)]] void at_load() {
  set_object_finder(reinterpret_cast<object_finder>(dlsym(RTLD_DEFAULT, "_dl_find_object")));
}

// Context of look_at_module(), a callback of dl_iterate_phdr().
struct search {
  std::uintptr_t pc;
  loaded_module* found;
  bool is_there = false;
};

int look_at_module(dl_phdr_info* info, std::size_t, void* context) {
  auto& wanted = *static_cast<search*>(context);
  std::uintptr_t start = ~std::uintptr_t{0};
  std::uintptr_t end = 0;
  const unsigned char* header = nullptr;
  bool inside = false;
  for (unsigned index = 0; index < info->dlpi_phnum; ++index) {
    const auto& segment = info->dlpi_phdr[index];
    const std::uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_GNU_EH_FRAME) header = reinterpret_cast<const unsigned char*>(begin);
    if (segment.p_type != PT_LOAD) continue;
    if (begin < start) start = begin;
    if (begin + segment.p_memsz > end) end = begin + segment.p_memsz;
    inside = inside || (wanted.pc >= begin && wanted.pc < begin + segment.p_memsz);
  }
  if (!inside) return 0;
  *wanted.found = {header, start, end, info->dlpi_addr, info->dlpi_name, nullptr};
  wanted.is_there = true;
  return 1;
}

}  // namespace

frame_rule parse_entry(std::uintptr_t pc, const unsigned char* entry) {
  frame_rule rule;
  rule.kind = rule_kind::frame_pointer;  // returned if the entry is damaged, unknown, or not that of `pc`
  reader in = content_of(entry);
  const unsigned char* common_at = in.at;  // the next word is the distance back to the CIE
  common_at -= in.take<std::uint32_t>();
  if (in.failed) return rule;
  common_entry common;
  if (!parse_common_entry(common_at, common)) return rule;
  const std::uintptr_t begin = in.pointer(common.pointer_encoding);
  const std::uintptr_t bytes = in.pointer(common.pointer_encoding & 0x0f);
  if (in.failed || pc < begin || pc - begin >= bytes) return rule;
  if (common.has_data) in.skip(in.unsigned_number());
  if (common.signal) {
    rule.kind = rule_kind::end;  // the interrupted function is not a caller
    return rule;
  }
  interpreter machine(common, pc - begin);
  if (arch::call_pushes_return_address) machine.now.return_address = {saved::at_offset, -8};
  if (!machine.run(common.program, common.end)) return rule;
  machine.keep_initial();
  if (!machine.run(in.at, in.end)) return rule;
  return as_rule(machine.now);
}

void set_object_finder(object_finder finder) {
  if (finder != nullptr) find_object.store(finder, std::memory_order_relaxed);
}

bool find_module_lock_free(std::uintptr_t pc, loaded_module& found) {
  const object_finder find = find_object.load(std::memory_order_relaxed);
  dl_find_object result = {};
  if (find == nullptr || find(reinterpret_cast<void*>(pc), &result) != 0) return false;
  found.unwind_header = static_cast<const unsigned char*>(result.dlfo_eh_frame);
  found.start = reinterpret_cast<std::uintptr_t>(result.dlfo_map_start);
  found.end = reinterpret_cast<std::uintptr_t>(result.dlfo_map_end);
  found.map = result.dlfo_link_map;
  found.base = found.map != nullptr ? found.map->l_addr : 0;
  found.path = found.map != nullptr ? found.map->l_name : "";
  return true;
}

bool find_module(std::uintptr_t pc, loaded_module& found) {
  if (find_object.load(std::memory_order_relaxed) != nullptr) return find_module_lock_free(pc, found);
  search wanted{pc, &found};
  dl_iterate_phdr(look_at_module, &wanted);
  return wanted.is_there;
}

}  // namespace tarn::unwind
