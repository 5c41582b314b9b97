// SPDX-License-Identifier: MIT
// What thread_state.hpp has of the registers and the signal frame of x86-64.
#if defined(__x86_64__)

#include <cpuid.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <cerrno>

#include "profiler/attach/frame_parts.hpp"
#include "profiler/attach/thread_state.hpp"

namespace tarn::profiler {

namespace {

constexpr int sets[] = {NT_X86_XSTATE};
constexpr std::size_t context_offset = 8;  // behind the return address
constexpr std::size_t words_offset = context_offset + sizeof(ucontext_t);
constexpr std::size_t vectors_offset =
    context_offset + 17 * 64;  // behind the words, aligned as the registers' image must be
static_assert(words_offset + sizeof(call_words) <= vectors_offset);

// The part of the kernel's XSAVE image that has something, as the kernel refuses images that are longer than the
// thread's own, which have room for features that the thread does not use.
constexpr std::size_t least_image = 576, used_features_offset = 512, software_offset = 464;

struct software_bytes {              // struct _fpx_sw_bytes of the kernel
  std::uint32_t magic = 0x46505853;  // FP_XSTATE_MAGIC1
  std::uint32_t extended_size = 0;
  std::uint64_t features = 0;
  std::uint32_t size = 0;
  std::uint32_t padding[7] = {};
};
constexpr std::uint32_t end_magic = 0x46505845;  // FP_XSTATE_MAGIC2

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
  const std::vector<unsigned char>* set = find_set(state.vectors, NT_X86_XSTATE);
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

// Where the called function returns to: it stores the result, sets is_done, waits in ppoll (271) until the caller has seen it,
// stores errno if asked, and goes back by rt_sigreturn (15).
// Relative to the stack pointer behind the return address: 968 result, 976 is_done, 984 wait, 1000 error_address.
static_assert(words_offset - context_offset == 968 && offsetof(call_words, is_done) == 8 &&
              offsetof(call_words, wait) == 16 && offsetof(call_words, error_address) == 32 &&
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

}  // namespace

std::span<const int> vector_sets() { return sets; }

bool set_registers(pid_t thread, const register_set& set) {
  return set_set(thread, NT_PRSTATUS, &set, sizeof set);
}

std::uint64_t words_address(std::uint64_t frame) { return frame + words_offset; }

std::span<const unsigned char> return_code() { return {tarn_attach_return, tarn_attach_return_end}; }

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
std::uint64_t frame_address(const thread_state& state, std::uint64_t top) {
  const std::size_t bytes = vectors_offset + vector_image(state).size();
  return ((top - bytes) & ~std::uint64_t{63}) - 8;
}

std::vector<unsigned char> frame_of(const thread_state& state, std::uint64_t address,
                                    std::uint64_t return_address) {
  const register_set& r = state.registers;
  ucontext_t context = {};
  // UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS.
  // The vector registers are there, the stack segment is valid and to be restored as it is. The alternative signal
  // stack is not changed, as its description here has an invalid size.
  context.uc_flags = 7;
  const std::uint64_t selectors = (r.cs & 0xffff) | (r.ss & 0xffff) << 48;
  const std::uint64_t values[] = {r.r8,  r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15,    r.rdi,    r.rsi,
                                  r.rbp, r.rbx, r.rdx, r.rax, r.rcx, r.rsp, r.rip, r.eflags, selectors};
  std::copy(std::begin(values), std::end(values), context.uc_mcontext.gregs);
  std::memcpy(&context.uc_sigmask, &state.mask, sizeof state.mask);
  const std::vector<unsigned char> image = vector_image(state);
  if (!image.empty()) context.uc_mcontext.fpregs = reinterpret_cast<fpregset_t>(address + vectors_offset);
  std::vector<unsigned char> frame(vectors_offset + image.size());
  put(frame, 0, return_address);
  put(frame, context_offset, context);
  put(frame, words_offset, call_words{});
  std::copy(image.begin(), image.end(), frame.begin() + vectors_offset);
  return frame;
}

void prepare_call(register_set& set, std::uint64_t function, std::initializer_list<std::uint64_t> arguments,
                  std::uint64_t address, std::uint64_t /*return_address*/) {
  unsigned long long* const registers[] = {&set.rdi, &set.rsi, &set.rdx, &set.rcx, &set.r8, &set.r9};
  std::size_t index = 0;
  for (const std::uint64_t one : arguments) *registers[index++] = one;
  set.rsp = address;  // the return address is in the frame
  set.rip = function;
  set.rax = 0;
  set.orig_rax = ~0ULL;     // so that the kernel restarts no system call
  set.eflags &= ~0x400ULL;  // the direction flag, which functions expect to be clear
}

void prepare_system_call(register_set& set, std::uint64_t instruction, long number,
                         std::initializer_list<std::uint64_t> arguments, std::uint64_t address,
                         std::uint64_t /*return_address*/) {
  unsigned long long* const registers[] = {&set.rdi, &set.rsi, &set.rdx, &set.r10, &set.r8, &set.r9};
  std::size_t index = 0;
  for (const std::uint64_t one : arguments) *registers[index++] = one;
  if (address != 0) set.rsp = address;
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

std::uint64_t number_of_sleep(const register_set& set) { return set.orig_rax; }
std::uint64_t first_of_sleep(const register_set& set) { return set.rdi; }

handler_mark mark_of_handlers() {
  constexpr std::size_t word = sizeof(std::uint64_t);
  constexpr std::size_t index =
      (offsetof(ucontext_t, uc_mcontext) + offsetof(mcontext_t, gregs)) / word + REG_CSGSFS;
  return {index, 0x002b'0000'0000'0033, 7};  // selectors of the stack and of 64-bit code
}

}  // namespace tarn::profiler

#endif
