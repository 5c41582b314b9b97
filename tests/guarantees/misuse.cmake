# SPDX-License-Identifier: MIT
# The paragraph on misuse in docs/guarantees.md: wrong frees and writes to freed memory do no harm. Without guarded
# blocks, which end the process with longer reports.
tarn_guarantee(misuse_double_free ENVIRONMENT TARN_GUARDED=off)
tarn_guarantee(misuse_interior ENVIRONMENT TARN_GUARDED=off)
tarn_guarantee(misuse_foreign ENVIRONMENT TARN_GUARDED=off)
tarn_guarantee(misuse_use_after_free ENVIRONMENT TARN_GUARDED=off)
tarn_guarantee(40_guarded_regions)

# Lines 46 and 47: guarded blocks find misuse, and leave the program's signals as they are.
tarn_guarantee(46_guarded_samples TIMEOUT 300)
tarn_guarantee(47_fault_signals ENVIRONMENT TARN_GUARDED=10)
