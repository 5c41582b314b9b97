// SPDX-License-Identifier: MIT
// prof.*: this library has no profiler inside, so every name gives ENOENT, as in a jemalloc without profiling. The names
// exist, because programs ask for their numbers first. tarn's profiler is a program of its own (`tarn profile`,
// `tarn attach`).
#include "jemalloc/tree.hpp"

namespace tarn::jemalloc {
namespace {

int handle(const request& /*r*/) { return ENOENT; }

constexpr node nodes[] = {
    leaf("thread_active_init", handle),
    leaf("active", handle),
    leaf("dump", handle),
    leaf("gdump", handle),
    leaf("prefix", handle),
    leaf("reset", handle),
    leaf("interval", handle),
    leaf("lg_sample", handle),
    leaf("log_start", handle),
    leaf("log_stop", handle),
};

}  // namespace

constexpr node_list prof_names = list_of(nodes);

}  // namespace tarn::jemalloc
