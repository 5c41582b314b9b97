# SPDX-License-Identifier: MIT
# The paragraph on misuse in docs/guarantees.md: wrong frees and writes to freed memory do no harm.
tarn_guarantee(misuse_double_free)
tarn_guarantee(misuse_interior)
tarn_guarantee(misuse_foreign)
tarn_guarantee(misuse_use_after_free)
tarn_guarantee(40_guarded_regions)
