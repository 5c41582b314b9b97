// SPDX-License-Identifier: MIT
// Whether this is the hardened build (libtarn-hardened.so, docs/design/0015): decided at compile time, by one macro for
// all files, so that the other build has not one instruction of it.
#pragma once

#ifndef TARN_HARDENED
#define TARN_HARDENED 0
#endif

namespace tarn {

inline constexpr bool hardened_build = TARN_HARDENED != 0;

}  // namespace tarn
