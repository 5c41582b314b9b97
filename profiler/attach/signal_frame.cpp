// SPDX-License-Identifier: MIT
#include "profiler/attach/signal_frame.hpp"

#include <ucontext.h>

#include <cstddef>
#include <vector>

#include "profiler/attach/remote_module.hpp"

namespace tarn::profiler {

namespace {

constexpr std::size_t word_bytes = sizeof(std::uint64_t);
constexpr std::size_t most_stack_bytes = 1 << 20;

// A word of the context that is the same in all of them.
#if defined(__x86_64__)
constexpr std::uint64_t most_flags = 7;
constexpr std::size_t mark_place =
    (offsetof(ucontext_t, uc_mcontext) + offsetof(mcontext_t, gregs)) / word_bytes + REG_CSGSFS;
constexpr std::uint64_t mark = 0x002b'0000'0000'0033;  // selectors of the stack and of 64-bit code
#elif defined(__aarch64__)
constexpr std::uint64_t most_flags = 0;
constexpr std::size_t mark_place =
    (offsetof(ucontext_t, uc_mcontext) + offsetof(mcontext_t, __reserved)) / word_bytes;
constexpr std::uint64_t mark = 0x0000'0210'4650'8001;  // the vector registers come first: FPSIMD_MAGIC, size
#endif

}  // namespace

bool has_signal_frame(std::span<const std::uint64_t> words) {
  for (std::size_t at = 0; at + mark_place < words.size(); ++at) {
    const bool has_link = words[at + 1] != 0;  // uc_link
    if (words[at + mark_place] == mark && words[at] <= most_flags && !has_link) return true;
  }
  return false;
}

bool may_be_in_handler(pid_t process, std::uint64_t stack_pointer) {
  std::vector<std::uint64_t> words(most_stack_bytes / word_bytes);
  const std::size_t bytes =
      read_memory(process, stack_pointer & ~std::uint64_t{word_bytes - 1}, words.data(), most_stack_bytes);
  return has_signal_frame({words.data(), bytes / word_bytes});
}

}  // namespace tarn::profiler
