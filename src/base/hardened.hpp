// SPDX-License-Identifier: MIT
// Whether this is the hardened build (libtarn-hardened.so, docs/design/0015). One macro for all files decides at
// compile time, so that the ordinary build contains no instruction of it.
#pragma once

#ifndef TARN_HARDENED
#define TARN_HARDENED 0
#endif

namespace tarn {

inline constexpr bool hardened_build = TARN_HARDENED != 0;

}  // namespace tarn
