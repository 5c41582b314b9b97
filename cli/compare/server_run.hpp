// SPDX-License-Identifier: MIT
// server_run: one run of a server under a load. The calling process must have one thread.
#pragma once

#include <sys/resource.h>

#include <functional>

#include "cli/compare/run_attempt.hpp"
#include "cli/launch/child_process.hpp"

namespace tarn::cli {

// Starts the server as `server` says, waits until it is ready, runs the load, and ends the server. `load` is the
// request that starts the load: its variables and descriptors. The figures are those of the server; the wall time
// is that of the load. Throws as run_program() does.
run_attempt run_server(const child_request& server, child_request load, const run_settings& settings,
                       const held_signals& signals, const std::function<void()>& each_second);

run_figures figures_of(double wall_seconds, const rusage& usage);

}  // namespace tarn::cli
