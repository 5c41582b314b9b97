# SPDX-License-Identifier: MIT
# The section on memory errors in docs/reference/guarantees.md: wrong frees and writes to freed memory do no harm. These programs
# run without guarded blocks, which would end the process with longer reports.
tarn_guarantee(misuse_double_free ENVIRONMENT TARN_GUARDED=off)
tarn_guarantee(misuse_interior ENVIRONMENT TARN_GUARDED=off)
tarn_guarantee(misuse_foreign ENVIRONMENT TARN_GUARDED=off)
tarn_guarantee(misuse_use_after_free ENVIRONMENT TARN_GUARDED=off)
tarn_guarantee(40_guarded_regions)

# Lines 46 and 47: guarded blocks find misuse and do not change how signals reach the program.
tarn_guarantee(46_guarded_samples TIMEOUT 300)
tarn_guarantee(47_fault_signals ENVIRONMENT TARN_GUARDED=10)

# Line 48. The two libraries differ in the size of a stack frame.
foreach(frame small=8192 large=131072)
  string(REGEX MATCH "^[a-z]+" name ${frame})
  string(REGEX MATCH "[0-9]+$" bytes ${frame})
  add_library(guarantee_48_${name} MODULE 48_frame.cpp)
  tarn_guarantee_target(guarantee_48_${name})
  target_compile_definitions(guarantee_48_${name} PRIVATE FRAME_BYTES=${bytes})
  set_target_properties(guarantee_48_${name} PROPERTIES PREFIX "" OUTPUT_NAME 48_${name})
endforeach()
tarn_guarantee(48_call_paths ENVIRONMENT TARN_GUARDED=1 DEPENDS guarantee_48_small guarantee_48_large)
