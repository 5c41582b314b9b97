# SPDX-License-Identifier: MIT
# Lines 20-26, 36-39 and 54 of docs/reference/guarantees.md: what happens when address space, memory or mappings run out.
tarn_guarantee(20_address_space_exhaustion)
# The program traps system calls by a signal, which tarn's background thread would block.
tarn_guarantee(20_free_in_pieces LONG ENVIRONMENT TARN_BACKGROUND=off)
foreach(name 20_address_space_exhaustion 20_free_in_pieces) # they use the engine's constants
  target_include_directories(guarantee_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/../../src)
endforeach()
tarn_guarantee(21_small_address_space LONG)
tarn_guarantee(22_failing_system_calls LONG TIMEOUT 300)
# CTest starts tests with a high COST first, see tests/cli/CMakeLists.txt.
set_tests_properties(guarantee.22_failing_system_calls PROPERTIES COST 30)
tarn_guarantee(22_mapping_table_full)
tarn_guarantee(23_sandbox)
# libstdc++ allocates before main. Without it the sandbox can close before the first allocation.
target_link_options(guarantee_23_sandbox PRIVATE -Wl,--as-needed)
tarn_guarantee(23_forbidden_mprotect)
tarn_guarantee(23_inherited_filter)
tarn_guarantee(24_mapping_count)
tarn_guarantee(25_memory_limit SERIAL LONG)
tarn_guarantee(26_locked_memory SERIAL)
target_include_directories(guarantee_26_locked_memory PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/../../src) # the engine's constants
# These programs trap system calls by a signal, which tarn's background thread would block.
tarn_guarantee(36_moving_memory ENVIRONMENT TARN_BACKGROUND=off)
# The pages of blocks that go are heard while memory ages, in a process with a background thread and in one without.
foreach(way name patch)
  tarn_guarantee(52_heard_by_${way} ENVIRONMENT TARN_DECAY_MS=100)
  set_target_properties(guarantee_52_heard_by_${way} PROPERTIES ENABLE_EXPORTS ON)
endforeach()
tarn_guarantee(36_foreign_advice)
tarn_guarantee(36_advice_at_limit)
tarn_guarantee(36_refused_calls LONG ENVIRONMENT TARN_BACKGROUND=off)
tarn_guarantee(37_locked_memory_idle LONG)
tarn_guarantee(38_many_free_spans SERIAL)
tarn_guarantee(38_heap_once_large SERIAL)
# Without huge pages, which the system would fill within malloc.
tarn_guarantee(54_bounded_calls SERIAL ENVIRONMENT TARN_BACKGROUND=on TARN_HUGE_PAGES=never)
tarn_guarantee(54_rare_long_calls SERIAL LONG)
tarn_guarantee(39_untouched_blocks SERIAL ENVIRONMENT TARN_BACKGROUND=off)
