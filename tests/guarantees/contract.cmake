# SPDX-License-Identifier: MIT
# Lines 1-9 of docs/guarantees.md: the contract of all allocation functions.
tarn_guarantee(01_ownership)
tarn_guarantee(02_alignment)
tarn_guarantee(03_alignment_errors)
tarn_guarantee(04_overflow)
tarn_guarantee(04_new_handler)
tarn_guarantee(05_zero_size)
tarn_guarantee(06_errno)
tarn_guarantee(07_realloc LONG)
tarn_guarantee(07_page_tables SERIAL)
tarn_guarantee(08_calloc SERIAL)
tarn_guarantee(09_model LONG)
