# SPDX-License-Identifier: MIT
# Lines 27-31, 41-44, 49 and 51 of docs/reference/guarantees.md: bounds on memory, time and instructions beyond what the live
# blocks need; errno.
tarn_guarantee(27_producer_consumer SERIAL)
tarn_guarantee(28_threads_in_turn SERIAL)
target_include_directories(guarantee_28_threads_in_turn PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/../../src) # the engine's constants
tarn_guarantee(29_idle_threads SERIAL)
tarn_guarantee(30_memory_returned SERIAL)
tarn_guarantee(30_drifting_sizes SERIAL)
tarn_guarantee(30_changing_sizes SERIAL)
tarn_guarantee(30_growing_blocks)
tarn_guarantee(30_freed_after_rest SERIAL)
add_executable(guarantee_30_large_system_pages 30_large_system_pages.cpp)
tarn_guarantee_target(guarantee_30_large_system_pages)
foreach(kib 16 64)
  set(library guarantee_30_page_size_${kib})
  add_library(${library} MODULE 30_page_size.cpp)
  target_compile_definitions(${library} PRIVATE PAGE_KIB=${kib})
  tarn_guarantee_target(${library})
  tarn_guarantee_test(30_system_pages_of_${kib}_kib guarantee_30_large_system_pages SERIAL BEFORE ${library}
    ENVIRONMENT TARN_DECAY_MS=20)
endforeach()
tarn_guarantee(31_hello_world SERIAL)
tarn_guarantee(50_memory_nodes SERIAL)
tarn_guarantee(42_idle_threads_every_class SERIAL)
tarn_guarantee(43_failure_errno)
# The numbers are recorded for the release build; other optimisation and checks change them.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT TARN_CHECKS)
  tarn_guarantee(41_hot_path_instructions)
endif()
tarn_guarantee(44_idle_threads_any_size SERIAL)
tarn_guarantee(49_many_active_threads SERIAL)
tarn_guarantee(49_vfork_first ENVIRONMENT TARN_CPU_CACHES=on)
tarn_guarantee(49_vfork_in_sandbox ENVIRONMENT TARN_CPU_CACHES=on)
tarn_guarantee(49_shared_caches LONG)
tarn_guarantee_test(49_shared_caches_on guarantee_49_shared_caches LONG ENVIRONMENT TARN_CPU_CACHES=on)
# Without restartable sequences every thread has a cache of its own.
tarn_guarantee_test(49_shared_caches_without guarantee_49_shared_caches
  ENVIRONMENT TARN_CPU_CACHES=on GLIBC_TUNABLES=glibc.pthread.rseq=0)

# Line 51. The rate gives each program enough samples; in the long run it is the default.
tarn_guarantee(51_profile_truth TIMEOUT 300 ENVIRONMENT TARN_PROFILE=16k)
tarn_guarantee_test(51_profile_truth_shared guarantee_51_profile_truth TIMEOUT 300 ENVIRONMENT TARN_PROFILE=16k TARN_CPU_CACHES=on)
tarn_guarantee_test(51_profile_truth_512k guarantee_51_profile_truth TIMEOUT 3600 ENVIRONMENT TARN_PROFILE=512k GUARANTEE_LONG=1)
set_tests_properties(guarantee.51_profile_truth_512k PROPERTIES LABELS long)
# What other lines promise, with every block, or every hundredth byte, in the heap profile.
foreach(name 12_thread_destructors 15_fork 17_signals 18_small_stacks 35_fork_in_handler)
  tarn_guarantee_test(${name}_profiled guarantee_${name} TIMEOUT 300 ENVIRONMENT TARN_PROFILE=100)
endforeach()
