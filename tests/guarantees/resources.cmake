# SPDX-License-Identifier: MIT
# Lines 20-26 of docs/guarantees.md: what happens when address space, memory or mappings run out.
tarn_guarantee(20_address_space_exhaustion)
# Traps system calls by a signal, which the engine's own thread blocks.
tarn_guarantee(20_free_in_pieces LONG ENVIRONMENT TARN_BACKGROUND=off)
foreach(name 20_address_space_exhaustion 20_free_in_pieces) # for the engine's constants
  target_include_directories(guarantee_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/../../src)
endforeach()
tarn_guarantee(21_small_address_space LONG)
tarn_guarantee(22_failing_system_calls LONG TIMEOUT 300)
set_tests_properties(guarantee.22_failing_system_calls PROPERTIES COST 30) # begun early: see tests/cli/CMakeLists.txt
tarn_guarantee(22_mapping_table_full)
tarn_guarantee(23_sandbox)
# libstdc++ allocates before main; without it the sandbox can close before the first use.
target_link_options(guarantee_23_sandbox PRIVATE -Wl,--as-needed)
tarn_guarantee(24_mapping_count)
tarn_guarantee(25_memory_limit SERIAL LONG)
tarn_guarantee(26_locked_memory SERIAL)
# Traps system calls by a signal, which the engine's own thread blocks.
tarn_guarantee(36_moving_memory ENVIRONMENT TARN_BACKGROUND=off)
tarn_guarantee(36_foreign_advice)
tarn_guarantee(36_refused_calls LONG ENVIRONMENT TARN_BACKGROUND=off)
tarn_guarantee(37_locked_memory_idle LONG)
tarn_guarantee(38_many_free_spans SERIAL)
tarn_guarantee(38_heap_once_large SERIAL)
tarn_guarantee(39_untouched_blocks SERIAL ENVIRONMENT TARN_BACKGROUND=off)
