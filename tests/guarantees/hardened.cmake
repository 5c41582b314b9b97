# SPDX-License-Identifier: MIT
# The programs again under libtarn-hardened.so, label "hardened": what is promised of every build, and what this one adds.
# Programs that are left out, and why:
#   29, 34_memory_of_children, 34_few_copies_in_children, 37, 44   the fast build's do
#   30_freed_after_rest, 32_rights, 32_thread_stays, 33_sandbox_later   they free 8 and 19 MiB, which stay in quarantine
#   32_rights_past_gates, 32_child_ends, 33_unexpected_thread   their subject is the background thread, which is the fast build's
#   30_changing_sizes, 42         bounds on memory that canaries and quarantines exceed
#   39                            the last 32 freed large blocks keep their address space
#   07_page_tables, 41            large blocks do not move when they grow; instructions are counted for the fast build
#   31                            compares times with glibc's, of a run with nothing beside it
#   46                            canaries report most of its misuse first, in other words
#   misuse_use_after_free, 40     go on behind writes that this build ends the process for (misuse_overrun has those cases)
#   34_fork_handlers_static, 34_fork_first_allocation, 16_dlopen_tarn   link or load another library
if(TARGET tarn_hardened AND NOT TARN_GUARANTEE_LIBRARY AND NOT TARN_QUICK_TESTS)
  foreach(name misuse_overrun misuse_size)
    add_executable(guarantee_${name} ${name}.cpp)
    tarn_guarantee_target(guarantee_${name})
    set_target_properties(guarantee_${name} PROPERTIES OUTPUT_NAME ${name})
  endforeach()

  function(tarn_hardened_guarantees label)
    tarn_limit(limit 900)
    foreach(name IN LISTS ARGN)
      set(command guarantee_${name})
      if(name IN_LIST tarn_contract_checks)
        set(command guarantee_contract ${name})
      endif()
      add_test(NAME hardened.${name} COMMAND ${command})
      set_tests_properties(hardened.${name} PROPERTIES
        ENVIRONMENT "${TARN_SLOWNESS_ENV};GUARANTEE_HARDENED=1;LD_PRELOAD=$<TARGET_FILE:tarn_hardened>;TARN_LIB=$<TARGET_FILE:tarn_hardened>"
        SKIP_RETURN_CODE 77 TIMEOUT ${limit} LABELS "${label}")
    endforeach()
  endfunction()
  tarn_hardened_guarantees(hardened
    01_names 01_ownership 03_alignment_errors 04_new_handler 04_overflow 05_zero_size 06_errno 10_many_threads 11_live_threads
    12_thread_destructors 18_small_stacks 19_closed_descriptors 20_address_space_exhaustion 20_free_in_pieces 21_small_address_space 23_sandbox 23_forbidden_mprotect
    24_mapping_count 26_locked_memory 38_heap_once_large 38_many_free_spans 43_failure_errno 47_fault_signals
    48_call_paths misuse_overrun misuse_size misuse_foreign)
  set_property(TEST hardened.47_fault_signals APPEND PROPERTY ENVIRONMENT TARN_GUARDED=10)
  set_property(TEST hardened.48_call_paths APPEND PROPERTY ENVIRONMENT TARN_GUARDED=1)
  # A second to a minute each on a busy machine.
  tarn_hardened_guarantees("hardened;long"
    02_alignment 07_realloc 08_calloc 08_untouched 09_model 13_exit 14_outside_main 15_fork 15_fork_stdio 16_dlopen 17_cancellation
    17_signals 18_priorities 22_failing_system_calls 22_mapping_table_full 25_memory_limit
    27_producer_consumer 28_threads_in_turn 30_drifting_sizes 30_growing_blocks 30_memory_returned 32_children 33_inherited_filter
    34_copies_beside_threads 34_fork_handlers 35_fork_in_handler 36_foreign_advice 36_moving_memory 36_refused_calls
    misuse_double_free misuse_interior)

  # The table of the misuse programs under both builds and other allocators: cmake --build build/release --target misuse_kit
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(kit ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/misuse_kit.py --programs ${CMAKE_CURRENT_BINARY_DIR}
    --fast $<TARGET_FILE:tarn> --hardened $<TARGET_FILE:tarn_hardened>)
  add_custom_target(misuse_kit COMMAND ${kit} USES_TERMINAL)
  add_dependencies(misuse_kit tarn tarn_hardened guarantee_misuse_overrun guarantee_misuse_double_free
    guarantee_misuse_interior guarantee_misuse_foreign guarantee_misuse_use_after_free)
  add_test(NAME guarantee.misuse_kit.long COMMAND ${kit} --no-peers --bound)
  set_tests_properties(guarantee.misuse_kit.long PROPERTIES LABELS long TIMEOUT 3600)
endif()
