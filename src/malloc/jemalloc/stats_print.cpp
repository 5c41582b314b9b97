// SPDX-License-Identifier: MIT
// malloc_stats_print: the statistics of the whole process as text, or, with the letter J among the options, as JSON in the
// places that jemalloc has for them. Other letters change nothing.
//
// Thread safety: any thread. The program's function is called without a lock.
#include <cstring>

#include "malloc/jemalloc/exported.hpp"
#include "malloc/jemalloc/figures.hpp"
#include "malloc/jemalloc/message.hpp"
#include "malloc/jemalloc/settings.hpp"
#include "os/errno_keeper.hpp"

namespace tarn::jemalloc {
namespace {

struct item {
  const char* name;
  std::size_t figures::*member;
};
constexpr item items[] = {{"allocated", &figures::allocated}, {"active", &figures::active},
                          {"metadata", &figures::metadata},   {"resident", &figures::resident},
                          {"mapped", &figures::mapped},       {"retained", &figures::retained}};

void put_all(text_writer& out, bool json) {
  out.put(json ? "{\"jemalloc\":{\"version\":\"" : "___ Begin jemalloc statistics ___\nversion: ")
      .put(version);
  out.put(json ? "\",\"stats\":{" : "\n");
  const char* separator = "";
  for (const item& i : items) {
    const std::size_t value = from_figures([&i](const figures& f) { return f.*i.member; });
    if (json)
      out.put(separator).put('"').put(i.name).put("\":").number(value);
    else
      out.put(i.name).put(": ").number(value).put('\n');
    separator = ",";
  }
  out.put(json ? "}}}\n" : "--- End jemalloc statistics ---\n").put('\0');
}

}  // namespace
}  // namespace tarn::jemalloc

extern "C" TARN_API void malloc_stats_print(void (*write)(void* context, const char* text), void* context,
                                            const char* options) noexcept {
  using namespace tarn::jemalloc;
  const tarn::os::errno_keeper keeper;
  ensure_settings();
  refresh();
  tarn::text_buffer<1024> text;
  put_all(text, options != nullptr && std::strchr(options, 'J') != nullptr);
  if (write == nullptr) write = malloc_message != nullptr ? malloc_message : write_to_standard_error;
  write(context, text.data());
}
