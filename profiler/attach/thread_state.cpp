// SPDX-License-Identifier: MIT
#include "profiler/attach/thread_state.hpp"

#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "profiler/attach/remote_module.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/sigcontext.h>
#endif

namespace tarn::profiler {

namespace {

bool get_set(pid_t thread, int which, void* into, std::size_t& bytes) {
  iovec room = {into, bytes};
  if (ptrace(PTRACE_GETREGSET, thread, which, &room) != 0) return false;
  bytes = room.iov_len;
  return true;
}
bool set_set(pid_t thread, int which, const void* from, std::size_t bytes) {
  iovec room = {const_cast<void*>(from), bytes};
  return ptrace(PTRACE_SETREGSET, thread, which, &room) == 0;
}

// Results of system calls that the kernel restarts, which only tracers see: ERESTARTSYS, ERESTARTNOINTR, …
constexpr long restart = -512, restart_always = -513, restart_no_hand = -514, restart_by_block = -516;

[[maybe_unused]] bool is_restart(long result) {
  return result == restart || result == restart_always || result == restart_no_hand ||
         result == restart_by_block;
}

template <std::size_t size>
long find_in(std::span<const unsigned char> code, const std::array<unsigned char, size>& wanted) {
  const auto at = std::search(code.begin(), code.end(), wanted.begin(), wanted.end());
  return at == code.end() ? -1 : at - code.begin();
}

template <class type>
void put(std::vector<unsigned char>& into, std::size_t offset, const type& value) {
  if (into.size() < offset + sizeof value) into.resize(offset + sizeof value);
  std::memcpy(into.data() + offset, &value, sizeof value);
}

const std::vector<unsigned char>* find_set(const thread_state& state, int which) {
  for (const auto& [kind, bytes] : state.vectors)
    if (kind == which) return &bytes;
  return nullptr;
}

#if defined(__x86_64__)

constexpr int vector_sets[] = {NT_X86_XSTATE};
constexpr std::size_t context_offset = 8;  // behind the return address
constexpr std::size_t words_offset = context_offset + sizeof(ucontext_t);
constexpr std::size_t vectors_offset = context_offset + 1088;  // a multiple of 64 behind the context
static_assert(words_offset + sizeof(call_words) <= vectors_offset);

// The part of the kernel's XSAVE image that has something, as the kernel refuses images that are longer than the
// thread's own, which have room for features that the thread does not use.
constexpr std::size_t least_image = 576, used_features_offset = 512, software_offset = 464;

struct software_bytes {  // struct _fpx_sw_bytes of the kernel
  std::uint32_t magic = 0x46505853;
  std::uint32_t extended_size = 0;
  std::uint64_t features = 0;
  std::uint32_t size = 0;
  std::uint32_t padding[7] = {};
};
constexpr std::uint32_t end_magic = 0x46505845;

std::size_t image_size(std::uint64_t features) {
  std::size_t size = least_image;
  for (unsigned feature = 2; feature < 63; ++feature) {
    unsigned bytes = 0;
    unsigned offset = 0;
    unsigned c = 0;
    unsigned d = 0;
    if ((features >> feature & 1) != 0 && __get_cpuid_count(13, feature, &bytes, &offset, &c, &d) != 0)
      size = std::max(size, std::size_t{offset} + bytes);
  }
  return size;
}

std::vector<unsigned char> vector_image(const thread_state& state) {
  const std::vector<unsigned char>* set = find_set(state, NT_X86_XSTATE);
  if (set == nullptr || set->size() < least_image) return {};
  std::uint64_t features = 0;
  std::memcpy(&features, set->data() + used_features_offset, sizeof features);
  features |= 3;  // the oldest registers are always there
  const std::size_t size = std::min(set->size(), image_size(features));
  std::vector<unsigned char> image(set->begin(), set->begin() + static_cast<long>(size));
  software_bytes software = {};
  software.size = static_cast<std::uint32_t>(size);
  software.extended_size = software.size + sizeof end_magic;
  software.features = features;
  put(image, software_offset, software);
  put(image, size, end_magic);
  return image;
}

// Relative to the stack pointer behind the return address: 968 result, 976 is_done, 984 wait, 1000 error_place.
static_assert(words_offset - context_offset == 968 && offsetof(call_words, is_done) == 8 &&
              offsetof(call_words, wait) == 16 && offsetof(call_words, error_place) == 32 &&
              offsetof(call_words, error) == 40);
extern "C" const unsigned char tarn_attach_return[];
extern "C" const unsigned char tarn_attach_return_end[];
asm(R"(
  .pushsection .rodata
  .globl tarn_attach_return
  .hidden tarn_attach_return
  .globl tarn_attach_return_end
  .hidden tarn_attach_return_end
tarn_attach_return:
  mov %rax, 968(%rsp)
  movq $1, 976(%rsp)
  xor %edi, %edi
  xor %esi, %esi
  lea 984(%rsp), %rdx
  xor %r10d, %r10d
  mov $8, %r8d
  mov $271, %eax
  syscall
  mov 1000(%rsp), %rcx
  test %rcx, %rcx
  jz 1f
  mov 1008(%rsp), %edx
  mov %edx, (%rcx)
1:mov $15, %eax
  syscall
tarn_attach_return_end:
  .popsection
)");

#elif defined(__aarch64__)

constexpr int vector_sets[] = {NT_PRFPREG, NT_ARM_SVE};
constexpr std::size_t context_offset = sizeof(siginfo_t);
constexpr std::size_t words_offset = context_offset + sizeof(ucontext_t);

// Relative to the stack pointer: 4688 result, 4696 is_done, 4704 wait, 4720 error_place, 4728 error.
static_assert(words_offset == 4688 && offsetof(call_words, is_done) == 8 &&
              offsetof(call_words, wait) == 16 && offsetof(call_words, error_place) == 32 &&
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

#endif

}  // namespace

bool thread_state::read_from(pid_t thread) {
  if (!get_registers(thread, registers) || ptrace(PTRACE_GETSIGMASK, thread, sizeof mask, &mask) != 0)
    return false;
  vectors.clear();
  for (const int which : vector_sets) {
    std::vector<unsigned char> room(std::size_t{64} << 10);
    std::size_t bytes = room.size();
    if (!get_set(thread, which, room.data(), bytes)) continue;
    room.resize(bytes);
    vectors.emplace_back(which, std::move(room));
  }
  return true;
}

bool get_registers(pid_t thread, register_set& set) {
  std::size_t bytes = sizeof set;
  return get_set(thread, NT_PRSTATUS, &set, bytes);
}

bool set_registers(pid_t thread, const register_set& set) {
  if (!set_set(thread, NT_PRSTATUS, &set, sizeof set)) return false;
#if defined(__aarch64__)
  const int none = -1;  // so that the kernel restarts no system call
  set_set(thread, NT_ARM_SYSTEM_CALL, &none, sizeof none);
#endif
  return true;
}

bool set_vectors(pid_t thread, const thread_state& state) {
  bool done = true;
  for (const auto& [which, bytes] : state.vectors)
    done = set_set(thread, which, bytes.data(), bytes.size()) && done;
  return done;
}

std::uint64_t place_of_words(std::uint64_t frame) { return frame + words_offset; }

std::span<const unsigned char> return_code() { return {tarn_attach_return, tarn_attach_return_end}; }

#if defined(__x86_64__)

std::uint64_t program_counter(const register_set& set) { return set.rip; }
std::uint64_t stack_pointer(const register_set& set) { return set.rsp; }
std::uint64_t control_block(const register_set& set) { return set.fs_base; }
std::uint64_t result_of(const register_set& set) { return set.rax; }

interrupted_call call_of(const register_set& set) {
  return {static_cast<long>(set.orig_rax), static_cast<long>(set.rax)};
}

bool sleeps_in_call(pid_t, const register_set& set) {
  const auto [number, result] = call_of(set);
  return number >= 0 && (is_restart(result) || result == -EINTR);
}

void repeat_call(register_set& set) {
  set.rip -= system_call_bytes;
  set.rax = set.orig_rax;
  set.orig_rax = ~0ULL;
}

register_set resumed(const register_set& set) {
  const auto [number, result] = call_of(set);
  register_set after = set;
  if (number >= 0 && is_restart(result)) repeat_call(after);
  return after;
}

// The stack pointer is 8 below a multiple of 64: functions expect that of 16, and the vector registers' image needs 64.
std::uint64_t place_of_frame(const thread_state& state, std::uint64_t top) {
  const std::size_t bytes = vectors_offset + vector_image(state).size();
  return ((top - bytes) & ~std::uint64_t{63}) - 8;
}

std::vector<unsigned char> frame_of(const thread_state& state, std::uint64_t place,
                                    std::uint64_t return_address) {
  const register_set& r = state.registers;
  ucontext_t context = {};
  // The vector registers are there, the stack segment is valid and to be restored as it is. The alternative signal
  // stack is not changed, as its description here has an invalid size.
  context.uc_flags = 7;
  const std::uint64_t selectors = (r.cs & 0xffff) | (r.ss & 0xffff) << 48;
  const std::uint64_t values[] = {r.r8,  r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15,    r.rdi,    r.rsi,
                                  r.rbp, r.rbx, r.rdx, r.rax, r.rcx, r.rsp, r.rip, r.eflags, selectors};
  std::copy(std::begin(values), std::end(values), context.uc_mcontext.gregs);
  std::memcpy(&context.uc_sigmask, &state.mask, sizeof state.mask);
  const std::vector<unsigned char> image = vector_image(state);
  if (!image.empty()) context.uc_mcontext.fpregs = reinterpret_cast<fpregset_t>(place + vectors_offset);
  std::vector<unsigned char> frame(vectors_offset + image.size());
  put(frame, 0, return_address);
  put(frame, context_offset, context);
  put(frame, words_offset, call_words{});
  std::copy(image.begin(), image.end(), frame.begin() + vectors_offset);
  return frame;
}

void prepare_call(register_set& set, std::uint64_t function, std::initializer_list<std::uint64_t> arguments,
                  std::uint64_t place, std::uint64_t /*return_address*/) {
  unsigned long long* const places[] = {&set.rdi, &set.rsi, &set.rdx, &set.rcx, &set.r8, &set.r9};
  std::size_t index = 0;
  for (const std::uint64_t one : arguments) *places[index++] = one;
  set.rsp = place;  // the return address is in the frame
  set.rip = function;
  set.rax = 0;
  set.orig_rax = ~0ULL;     // so that the kernel restarts no system call
  set.eflags &= ~0x400ULL;  // the direction flag, which functions expect to be clear
}

void prepare_system_call(register_set& set, std::uint64_t instruction, long number,
                         std::initializer_list<std::uint64_t> arguments, std::uint64_t place,
                         std::uint64_t /*return_address*/) {
  unsigned long long* const places[] = {&set.rdi, &set.rsi, &set.rdx, &set.r10, &set.r8, &set.r9};
  std::size_t index = 0;
  for (const std::uint64_t one : arguments) *places[index++] = one;
  if (place != 0) set.rsp = place;
  set.rip = instruction;
  set.rax = static_cast<std::uint64_t>(number);
  set.orig_rax = ~0ULL;
}

long find_system_call(std::span<const unsigned char> code) {
  return find_in(code, std::array<unsigned char, 2>{0x0f, 0x05});
}

long find_sigreturn(std::span<const unsigned char> code) {
  return find_in(code, std::array<unsigned char, 9>{0x48, 0xc7, 0xc0, SYS_rt_sigreturn, 0, 0, 0, 0x0f, 0x05});
}

#elif defined(__aarch64__)

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

std::uint64_t place_of_frame(const thread_state&, std::uint64_t top) {
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
  if (const auto* set = find_set(state, NT_PRFPREG);
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
                  std::uint64_t place, std::uint64_t return_address) {
  std::size_t index = 0;
  for (const std::uint64_t one : arguments) set.regs[index++] = one;
  set.sp = place;
  set.pc = function;
  set.regs[30] = return_address;
}

void prepare_system_call(register_set& set, std::uint64_t instruction, long number,
                         std::initializer_list<std::uint64_t> arguments, std::uint64_t place,
                         std::uint64_t return_address) {
  std::size_t index = 0;
  for (const std::uint64_t one : arguments) set.regs[index++] = one;
  if (place != 0) set.sp = place;
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

#endif

}  // namespace tarn::profiler
