# SPDX-License-Identifier: MIT
# Lines 32 and 33 of docs/guarantees.md: a program that gives up rights, enters a sandbox, or copies itself without fork
# handlers, has no thread of tarn's that it does not expect.
tarn_guarantee(32_rights)
