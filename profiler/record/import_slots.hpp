// SPDX-License-Identifier: MIT
// import_slots: makes the hooks take effect in a process whose symbols are already bound. An import slot is a word of a
// loaded module (in its global offset table or its data) that holds the address of a function in another module, as a
// relocation says. Slots that hold the address of a function that the recorder hooks are changed to the hook, and later
// changed back. Thread safety: one caller at a time. Other threads may call through the slots and load libraries at the
// same time: each slot changes atomically, and a module that is still being loaded is left alone until the next call.
// Invariant: for each slot that was changed to a hook, its previous word is known (changed_slots).
#pragma once

#include <cstdint>

namespace tarn::profiler::recorder {

struct slot_count {
  std::uint32_t changed = 0;
  std::uint32_t refused = 0;  // their page could not be made writable
};

// Changes the slots of all loaded modules; slots that were changed before stay changed.
slot_count lead_slots_to_hooks();
// Gives each slot that still holds a hook's address its previous word.
slot_count lead_slots_back();

// Changes with each call of dlopen from a module whose slots lead to the hooks.
const std::uint32_t& dlopen_calls();

}  // namespace tarn::profiler::recorder
