// SPDX-License-Identifier: MIT
// parse_loader_trace(): what the dynamic loader prints with LD_TRACE_LOADED_OBJECTS.
#include <gtest/gtest.h>

#include "cli/launch/preload_check.hpp"

namespace tarn::cli {
namespace {

TEST(loader_trace, objects_in_order_and_missing_ones) {
  const loader_trace trace = parse_loader_trace(
      "\tlinux-vdso.so.1 (0x00007ffd1e5f2000)\n"
      "\t/opt/lib/libtarn.so.1 (0x00007f0000000000)\n"
      "\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f0000001000)\n"
      "\tlibgone.so.3 => not found\n"
      "\t/lib64/ld-linux-x86-64.so.2 (0x00007f0000002000)\n",
      "");
  EXPECT_EQ(trace.objects,
            (std::vector<std::string>{"/opt/lib/libtarn.so.1", "/lib/x86_64-linux-gnu/libm.so.6",
                                      "/lib64/ld-linux-x86-64.so.2"}));
  EXPECT_EQ(trace.missing, std::vector<std::string>{"libgone.so.3"});
}

TEST(loader_trace, paths_with_blanks_and_nonsense) {
  const loader_trace trace =
      parse_loader_trace("\tlibx.so => /my libs/libx.so (0x00007f00)\n\n \ngarbage\n", "oops");
  EXPECT_EQ(trace.objects, std::vector<std::string>{"/my libs/libx.so"});
  EXPECT_EQ(trace.complaints, "oops");
  EXPECT_TRUE(is_system_libc("/lib/libc.so.6"));
  EXPECT_FALSE(is_system_libc("/lib/libjemalloc.so.2"));
}

}  // namespace
}  // namespace tarn::cli
