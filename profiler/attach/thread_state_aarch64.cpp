// SPDX-License-Identifier: MIT
// What thread_state.hpp has of the registers and the signal frame of aarch64.
#if defined(__aarch64__)

#include <asm/ptrace.h>
#include <asm/sigcontext.h>
#include <signal.h>
#include <ucontext.h>

#include "profiler/attach/frame_parts.hpp"
#include "profiler/attach/remote_module.hpp"
#include "profiler/attach/thread_state.hpp"

namespace tarn::profiler {

namespace {

constexpr int sets[] = {NT_PRFPREG, NT_ARM_SVE};
constexpr std::size_t context_offset = sizeof(siginfo_t);
constexpr std::size_t words_offset = context_offset + sizeof(ucontext_t);

// Relative to the stack pointer: 4688 result, 4696 is_done, 4704 wait, 4720 error_address, 4728 error.
static_assert(words_offset == 4688 && offsetof(call_words, is_done) == 8 &&
              offsetof(call_words, wait) == 16 && offsetof(call_words, error_address) == 32 &&
              offsetof(call_words, error) == 40);
extern "C" const unsigned char tarn_attach_return[];
extern "C" const unsigned char tarn_attach_return_end[];
asm(R"(
  .pushsection .rodata
  .balign 8
  .globl tarn_attach_return
  .hidden tarn_attach_return
  .globl tarn_attach_return_end
  .hidden tarn_attach_return_end
tarn_attach_return:
  str x0, [sp, #4688]
  mov x1, #1
  dmb ishst
  str x1, [sp, #4696]
  mov x0, #0
  mov x1, #0
  add x2, sp, #4096
  add x2, x2, #608
  mov x3, #0
  mov x4, #8
  mov x8, #73
  svc #0
  ldr x1, [sp, #4720]
  cbz x1, 1f
  ldr w2, [sp, #4728]
  str w2, [x1]
1:mov x8, #139
  svc #0
tarn_attach_return_end:
  .popsection
)");

}  // namespace

std::span<const int> vector_sets() { return sets; }

bool set_registers(pid_t thread, const register_set& set) {
  if (!set_set(thread, NT_PRSTATUS, &set, sizeof set)) return false;
  const int none = -1;  // so that the kernel restarts no system call
  set_set(thread, NT_ARM_SYSTEM_CALL, &none, sizeof none);
  return true;
}

std::uint64_t words_address(std::uint64_t frame) { return frame + words_offset; }

std::span<const unsigned char> return_code() { return {tarn_attach_return, tarn_attach_return_end}; }

std::uint64_t program_counter(const register_set& set) { return set.pc; }
std::uint64_t stack_pointer(const register_set& set) { return set.sp; }
// Not among these registers: the stack of a thread other than the first counts as no own one.
std::uint64_t control_block(const register_set&) { return 0; }
std::uint64_t result_of(const register_set& set) { return set.regs[0]; }

// The kernel has already led the thread back to the instruction, if the call is to be restarted. The first argument of
// another call cannot be seen any more.
interrupted_call call_of(const register_set&) { return {}; }
void repeat_call(register_set&) {}
bool sleeps_in_call(pid_t process, const register_set& set) {
  std::array<unsigned char, system_call_bytes> instruction = {};
  return read_memory(process, set.pc, instruction.data(), instruction.size()) == instruction.size() &&
         find_system_call(instruction) == 0;
}
register_set resumed(const register_set& set) { return set; }

std::uint64_t frame_address(const thread_state&, std::uint64_t top) {
  return (top - words_offset - sizeof(call_words)) & ~std::uint64_t{15};
}

// Without the upper parts of SVE registers: they are lost if the tracer was killed.
std::vector<unsigned char> frame_of(const thread_state& state, std::uint64_t, std::uint64_t) {
  ucontext_t context = {};
  std::copy(std::begin(state.registers.regs), std::end(state.registers.regs), context.uc_mcontext.regs);
  context.uc_mcontext.sp = state.registers.sp;
  context.uc_mcontext.pc = state.registers.pc;
  context.uc_mcontext.pstate = state.registers.pstate;
  std::memcpy(&context.uc_sigmask, &state.mask, sizeof state.mask);
  fpsimd_context floating = {};
  floating.head = {FPSIMD_MAGIC, sizeof floating};
  if (const auto* set = find_set(state.vectors, NT_PRFPREG);
      set != nullptr && set->size() >= sizeof(user_fpsimd_state)) {
    user_fpsimd_state saved;
    std::memcpy(&saved, set->data(), sizeof saved);
    std::memcpy(floating.vregs, saved.vregs, sizeof floating.vregs);
    floating.fpsr = saved.fpsr;
    floating.fpcr = saved.fpcr;
  }
  std::memcpy(context.uc_mcontext.__reserved, &floating, sizeof floating);
  std::vector<unsigned char> frame(words_offset);
  put(frame, context_offset, context);
  put(frame, words_offset, call_words{});
  return frame;
}

void prepare_call(register_set& set, std::uint64_t function, std::initializer_list<std::uint64_t> arguments,
                  std::uint64_t address, std::uint64_t return_address) {
  std::size_t index = 0;
  for (const std::uint64_t one : arguments) set.regs[index++] = one;
  set.sp = address;
  set.pc = function;
  set.regs[30] = return_address;
}

void prepare_system_call(register_set& set, std::uint64_t instruction, long number,
                         std::initializer_list<std::uint64_t> arguments, std::uint64_t address,
                         std::uint64_t return_address) {
  std::size_t index = 0;
  for (const std::uint64_t one : arguments) set.regs[index++] = one;
  if (address != 0) set.sp = address;
  set.regs[8] = static_cast<std::uint64_t>(number);
  set.pc = instruction;
  set.regs[30] = return_address;
}

long find_system_call(std::span<const unsigned char> code) {
  return find_in(code, std::array<unsigned char, 4>{0x01, 0x00, 0x00, 0xd4});
}

long find_sigreturn(std::span<const unsigned char> code) {
  return find_in(code, std::array<unsigned char, 8>{0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4});
}

std::uint64_t number_of_sleep(const register_set& set) { return set.regs[8]; }
// The kernel has put it back, as it restarts the call.
std::uint64_t first_of_sleep(const register_set& set) { return set.regs[0]; }

handler_mark mark_of_handlers() {
  constexpr std::size_t word = sizeof(std::uint64_t);
  constexpr std::size_t index = (offsetof(ucontext_t, uc_mcontext) + offsetof(mcontext_t, __reserved)) / word;
  return {index, 0x0000'0210'4650'8001, 0};  // the vector registers come first: FPSIMD_MAGIC, size
}

}  // namespace tarn::profiler

#endif
