// SPDX-License-Identifier: MIT
// byte_size: sizes as people write them, "8M", "8MiB" or "8388608".
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace tarn::cli {

// A whole number of bytes, or of KiB, MiB or GiB with K, KiB, M, MiB, G, GiB in either case. Throws cli_error, which
// says what is accepted.
std::uint64_t parse_byte_size(std::string_view word);

}  // namespace tarn::cli
