// SPDX-License-Identifier: MIT
// The name of a process, from its arguments and its file.
#include "profiler/collect/process_summary.hpp"

#include <gtest/gtest.h>

namespace tarn::profiler {
namespace {

TEST(process_name, is_the_first_argument_without_folder) {
  EXPECT_EQ(process_name({"redis-server", "--port", "1"}, "/usr/bin/redis-check-rdb"), "redis-server");
  EXPECT_EQ(process_name({"./build/server"}, "/opt/server-1.2"), "server");
  EXPECT_EQ(process_name({"-bash"}, "/bin/bash"), "bash");
  EXPECT_EQ(process_name({"/usr/bin/python3", "x.py"}, "/usr/bin/python3.11"), "python3");
}

TEST(process_name, is_the_files_name_if_the_program_has_set_a_title) {
  EXPECT_EQ(process_name({"nginx: worker process"}, "/usr/sbin/nginx"), "nginx");
  EXPECT_EQ(process_name({"redis-server *:6379"}, "/usr/bin/redis-check-rdb"), "redis-check-rdb");
  EXPECT_EQ(process_name({}, "/usr/sbin/nginx"), "nginx");
  EXPECT_EQ(process_name({""}, "/usr/sbin/nginx"), "nginx");
  EXPECT_EQ(process_name({"/"}, ""), "program");
}

}  // namespace
}  // namespace tarn::profiler
