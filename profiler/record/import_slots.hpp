// SPDX-License-Identifier: MIT
// import_slots: makes the hooks take effect in a process whose symbols are bound already. An import slot is a word of a
// loaded module that holds the address of a function of another one (in its global offset table, or in its data), as its
// relocations tell. Slots that lead to the program's own malloc and the rest of what the recorder exports are made to lead
// to the recorder's functions, and later back.
// Thread safety: one caller at a time. Other threads may call through the slots and load libraries meanwhile: a slot
// changes in one step, and a module that is still being loaded is left alone until the next call.
// Invariant: for each slot that leads to a hook the word that it held before is known.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tarn::profiler::recorder {

struct slot_count {
  std::uint32_t changed = 0;
  std::uint32_t refused = 0;  // the system did not let their page be written
};

// In all modules that are loaded. What was changed before stays.
slot_count lead_slots_to_hooks();
// Each slot that still leads to a hook gets its word from before.
slot_count lead_slots_back();

// Changes with each call of dlopen from a module whose slots lead to the hooks.
const std::uint32_t& dlopen_calls();

}  // namespace tarn::profiler::recorder
