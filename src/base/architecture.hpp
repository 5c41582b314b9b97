// SPDX-License-Identifier: MIT
// architecture: what differs between the processors that tarn runs on. One header for each defines the same names; the
// only other differences are whole functions of one subject, in files whose names end in the processor's.
#pragma once

#if defined(__x86_64__)
#include "base/x86_64.hpp"
#elif defined(__aarch64__)
#include "base/aarch64.hpp"
#else
#error "tarn runs on x86-64 and aarch64"
#endif
