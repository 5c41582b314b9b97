// SPDX-License-Identifier: MIT
// bin/tarn-compare: `tarn compare` alone. ./dev run measures with it, because it is built in a fifth of the command's time.
#include "cli/commands/commands.hpp"
#include "cli/show/guarded_main.hpp"

int main(int count, char** values) { return tarn::cli::guarded_main(count, values, tarn::cli::cmd_compare); }
