# SPDX-License-Identifier: MIT
# Lines 32 and 33 of docs/reference/guarantees.md: a program that gives up rights, enters a sandbox, or copies itself without fork
# handlers has no thread of tarn that it does not expect.
tarn_guarantee(32_rights)
tarn_guarantee(32_children LONG)
tarn_guarantee(32_rights_past_gates)
tarn_guarantee(32_child_ends)
tarn_guarantee(32_thread_stays)
tarn_guarantee(33_sandbox_later)
tarn_guarantee(33_inherited_filter)
tarn_guarantee(33_unexpected_thread)
# The program's own clock_gettime replaces libc's for all libraries.
set_target_properties(guarantee_33_unexpected_thread PROPERTIES ENABLE_EXPORTS ON)
tarn_guarantee(51_control_socket all ENVIRONMENT TARN_CONTROL=/tmp/tarn-guarantee-51)
