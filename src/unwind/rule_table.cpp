// SPDX-License-Identifier: MIT
#include "unwind/rule_table.hpp"

#include <cstring>

#include "unwind/unwind_table.hpp"

namespace tarn::unwind {

namespace {

// A rule packed into 64 bits:
//
//    63            44 43                  24 23         4    3     2      0
//   +----------------+----------------------+------------+-------+--------+
//   |  saved_return  |  saved_frame_pointer | cfa_offset | from  |  kind  |
//   |                |                      |            | frame |        |
//   +----------------+----------------------+------------+-------+--------+
constexpr std::uint64_t twenty_bits = (std::uint64_t{1} << 20) - 1;

std::uint64_t pack(const frame_rule& rule) {
  const auto field = [](std::int32_t value, unsigned shift) {
    return (static_cast<std::uint64_t>(static_cast<std::int64_t>(value)) & twenty_bits) << shift;
  };
  return static_cast<std::uint64_t>(rule.kind) | (rule.from_frame_pointer ? 8U : 0U) |
         field(rule.cfa_offset, 4) | field(rule.saved_frame_pointer, 24) | field(rule.saved_return, 44);
}

frame_rule unpack(std::uint64_t packed) {
  const auto field = [packed](unsigned shift) {
    return static_cast<std::int32_t>(static_cast<std::int64_t>(packed << (44 - shift)) >> 44);
  };
  return {static_cast<rule_kind>(packed & 7), (packed & 8) != 0, field(4), field(24), field(44)};
}

// ---- what a rule depends on ----

std::uint32_t number_at(const unsigned char* at) {
  std::uint32_t number = 0;
  std::memcpy(&number, at, sizeof number);
  return number;
}

// A sum of words, each multiplied by an odd number of its own, so that the multiplications run in parallel.
struct digest {
  std::uint64_t sum = 0;
  std::uint64_t factor = 0x9e3779b97f4a7c15U;

  void add(std::uint64_t word) {
    sum += word * factor;
    factor += 0xd1b54a32d192ed02U;
  }
  // Adds an FDE or a CIE, whose first word is the length of what follows, a multiple of 4.
  void add_entry(const unsigned char* entry) {
    constexpr std::uint32_t no_length = 0xffffffff;  // a 64-bit length follows: parse_entry() refuses it too
    const std::uint32_t length = number_at(entry);
    add(length);
    if (length == no_length) return;
    const unsigned char* at = entry + sizeof length;
    const unsigned char* const end = at + (length & ~7U);
    for (; at != end; at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, at, sizeof word);
      add(word);
    }
    if ((length & 4) != 0) add(number_at(at));
  }
};

// The source of a rule: index of its entry in bits 32 to 63; 32 bits of a digest of the entry and its common entry
// below.
std::uint64_t source_of(std::uint32_t index, const unsigned char* entry) {
  digest bytes;
  bytes.add_entry(entry);
  const std::uint32_t length = number_at(entry);
  if (length != 0 && length != 0xffffffff) bytes.add_entry(entry + 4 - number_at(entry + 4));
  return std::uint64_t{index} << 32 | bytes.sum >> 32;
}

constexpr frame_rule no_information{rule_kind::frame_pointer, false, 0, 0, 0};

}  // namespace

kept_rule rule_entry::find(std::uintptr_t pc) const noexcept {
  const std::uint64_t rule = rule_.load(std::memory_order_relaxed);
  const std::uint64_t source = source_.load(std::memory_order_relaxed);
  if ((check_.load(std::memory_order_relaxed) ^ rule ^ source) != pc) return {};
  return {unpack(rule), source};
}

void rule_entry::insert(std::uintptr_t pc, const kept_rule& kept) noexcept {
  const std::uint64_t packed = pack(kept.rule);
  rule_.store(packed, std::memory_order_relaxed);
  source_.store(kept.source, std::memory_order_relaxed);
  check_.store(pc ^ packed ^ kept.source, std::memory_order_relaxed);
}

frame_rule checked_rules::rule_for(std::uintptr_t pc, const unsigned char* unwind_header) noexcept {
  const unwind_table table(unwind_header);
  const kept_rule kept = kept_.find(pc);
  const bool is_known = kept.rule.kind != rule_kind::unknown;
  auto index = static_cast<std::uint32_t>(kept.source >> 32);
  if (!is_known || !table.is_index_of(index, pc)) index = table.index_of(pc);
  if (index == unwind_table::none) return no_information;
  const unsigned char* const entry = table.entry(index);
  const std::uint64_t source = source_of(index, entry);
  if (is_known && kept.source == source) return kept.rule;
  const frame_rule rule = parse_entry(pc, entry);
  kept_.insert(pc, {rule, source});
  return rule;
}

frame_rule parse_frame_rule(std::uintptr_t pc, const unsigned char* unwind_header) {
  const unwind_table table(unwind_header);
  const std::uint32_t index = table.index_of(pc);
  return index == unwind_table::none ? no_information : parse_entry(pc, table.entry(index));
}

}  // namespace tarn::unwind
