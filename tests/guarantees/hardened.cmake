# SPDX-License-Identifier: MIT
# The programs again under libtarn-hardened.so, label "hardened": what is promised of every build, and what this one adds.
# Left out: bounds on memory and time, which are the other build's; and misuse_use_after_free and 40_guarded_regions, which
# go on behind writes that this build ends the process for (misuse_overrun has those cases).
if(TARGET tarn_hardened AND NOT TARN_GUARANTEE_LIBRARY)
  add_executable(guarantee_misuse_overrun misuse_overrun.cpp)
  tarn_guarantee_target(guarantee_misuse_overrun)
  set_target_properties(guarantee_misuse_overrun PROPERTIES OUTPUT_NAME misuse_overrun)

  function(tarn_hardened_guarantees label)
    tarn_limit(limit 900)
    foreach(name IN LISTS ARGN)
      add_test(NAME hardened.${name} COMMAND guarantee_${name})
      set_tests_properties(hardened.${name} PROPERTIES
        ENVIRONMENT "${TARN_SLOWNESS_ENV};LD_PRELOAD=$<TARGET_FILE:tarn_hardened>;TARN_LIB=$<TARGET_FILE:tarn_hardened>"
        SKIP_RETURN_CODE 77 TIMEOUT ${limit} LABELS "${label}")
    endforeach()
  endfunction()
  tarn_hardened_guarantees(hardened
    01_ownership 03_alignment_errors 04_overflow 05_zero_size 06_errno 10_many_threads 12_thread_destructors
    21_small_address_space 23_sandbox 24_mapping_count 48_call_paths misuse_overrun misuse_foreign)
  set_property(TEST hardened.48_call_paths APPEND PROPERTY ENVIRONMENT TARN_GUARDED=1)
  # Half a minute each on a busy machine.
  tarn_hardened_guarantees("hardened;long"
    02_alignment 07_realloc 08_calloc 09_model 14_outside_main 15_fork 16_dlopen 17_signals misuse_double_free misuse_interior)

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
