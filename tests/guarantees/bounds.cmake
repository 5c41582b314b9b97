# SPDX-License-Identifier: MIT
# Lines 27-31 of docs/guarantees.md: how much memory and time tarn takes beyond what is live.
tarn_guarantee(27_producer_consumer SERIAL)
tarn_guarantee(28_threads_in_turn SERIAL)
tarn_guarantee(29_idle_threads SERIAL)
tarn_guarantee(30_memory_returned SERIAL)
tarn_guarantee(30_drifting_sizes SERIAL)
tarn_guarantee(30_changing_sizes SERIAL)
tarn_guarantee(30_growing_blocks)
tarn_guarantee(31_hello_world SERIAL)
tarn_guarantee(42_idle_threads_every_class SERIAL)
tarn_guarantee(43_failure_errno)
# Recorded for the release build: light optimisation and checks change the numbers.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT TARN_CHECKS)
  tarn_guarantee(41_hot_path_instructions)
endif()
tarn_guarantee(44_idle_threads_any_size SERIAL)
