# SPDX-License-Identifier: MIT
# Lines 10-19 of docs/guarantees.md: threads, processes, libraries, signals.
tarn_guarantee(10_many_threads SERIAL LONG)
tarn_guarantee(11_live_threads SERIAL)
tarn_guarantee(12_thread_destructors SERIAL)
tarn_guarantee(13_exit)
tarn_guarantee(14_outside_main)
tarn_guarantee(15_fork LONG)
tarn_guarantee(15_fork_stdio LONG)

add_library(guarantee_16_plugin MODULE 16_plugin.cpp)
tarn_guarantee_target(guarantee_16_plugin)
# Unique symbols would make the library impossible to unload.
target_compile_options(guarantee_16_plugin PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
set_target_properties(guarantee_16_plugin PROPERTIES PREFIX "" OUTPUT_NAME 16_plugin)
tarn_guarantee(16_dlopen SERIAL DEPENDS guarantee_16_plugin)
tarn_guarantee(16_dlopen_tarn NO_PRELOAD)

tarn_guarantee(17_cancellation)
tarn_guarantee(17_signals LONG)
tarn_guarantee(18_small_stacks)
tarn_guarantee(18_priorities SERIAL)
tarn_guarantee(19_closed_descriptors)

foreach(library handlers second_handlers)
  add_library(guarantee_34_${library} SHARED 34_handlers_library.cpp)
  tarn_guarantee_target(guarantee_34_${library})
endforeach()
tarn_guarantee(34_fork_handlers DEPENDS guarantee_34_second_handlers)
target_link_libraries(guarantee_34_fork_handlers PRIVATE guarantee_34_handlers)
target_compile_definitions(guarantee_34_fork_handlers PRIVATE
  TARN_SECOND_LIBRARY="$<TARGET_FILE:guarantee_34_second_handlers>")
tarn_guarantee(34_fork_first_allocation NO_PRELOAD)
set_target_properties(guarantee_34_fork_first_allocation PROPERTIES ENABLE_EXPORTS ON)
tarn_guarantee(34_memory_of_children ENVIRONMENT TARN_DECAY_MS=300)
tarn_guarantee(35_fork_in_handler LONG)
