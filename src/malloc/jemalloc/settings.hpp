// SPDX-License-Identifier: MIT
// settings: the options of jemalloc that have a counterpart in tarn, in effect now.
//
// Thread safety: any thread.
#pragma once

#include <cstddef>

namespace tarn::jemalloc {

// Reads MALLOC_CONF and its like (conf.hpp) when the library is loaded, or at the first call if that is earlier.
void ensure_settings();

// dirty_decay_ms is tarn's option decay_ms. Times beyond a day count as a day. False: below -1.
std::ptrdiff_t decay_ms();
bool set_decay_ms(std::ptrdiff_t ms);
// tarn has no lazily freed ("muzzy") pages: the number is kept and has no effect.
std::ptrdiff_t muzzy_decay_ms();
bool set_muzzy_decay_ms(std::ptrdiff_t ms);

// Whether a thread of tarn gives memory back when there is some. True is tarn's default.
bool has_background_thread();
// False: refused.
bool set_background_thread(bool wanted);

// tarn's value of an option ("auto"), as text that stays valid until this thread asks again.
const char* option_value(const char* name);
// Sets an option unless the environment (TARN_…) or the program has.
void set_if_default(const char* name, const char* value);

}  // namespace tarn::jemalloc
