// SPDX-License-Identifier: MIT
// A snapshot of all tiers' figures, and its one form as text.
#pragma once

#include "base/text.hpp"
#include "tarn/malloc.h"

namespace tarn::statistics {

void collect(tarn_stats& out);
// One JSON object, without a line's end. `with_process`: the process's number and program too.
void write_json(text_writer& out, bool with_process);

}  // namespace tarn::statistics
