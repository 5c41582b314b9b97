// SPDX-License-Identifier: MIT
#include "malloc/jemalloc/message.hpp"

#include "malloc/jemalloc/exported.hpp"
#include "os/report.hpp"

extern "C" {
// Weak, so that the program's definition is one that the compiler must expect.
[[gnu::weak]] const char* malloc_conf = nullptr;
[[gnu::weak]] void (*malloc_message)(void* context, const char* text) = nullptr;
}

namespace tarn::jemalloc {

void write_to_standard_error(void* /*context*/, const char* text) {
  while (*text != '\0') {
    text_buffer<1024> part;
    while (*text != '\0' && part.size() < 1024) part.put(*text++);
    os::write_line(part);
  }
}

void write_message(text_writer& line) {
  text_buffer<1024> text;
  constexpr std::size_t most = 1023;
  for (std::size_t i = 0; i < line.stored() && i < most; ++i) text.put(line.data()[i]);
  text.put('\0');
  (malloc_message != nullptr ? malloc_message : write_to_standard_error)(nullptr, text.data());
}

}  // namespace tarn::jemalloc
