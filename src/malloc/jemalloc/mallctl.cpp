// SPDX-License-Identifier: MIT
// mallctl: finds the name in the tree and calls its handler.
//
// Thread safety: any thread. A name that is null, or numbers that are, give EINVAL; jemalloc would crash.
#include "malloc/jemalloc/exported.hpp"
#include "malloc/jemalloc/settings.hpp"
#include "malloc/jemalloc/tree.hpp"
#include "os/errno_keeper.hpp"

using namespace tarn;
using namespace tarn::jemalloc;

namespace {

int call(const node& n, const size_t* mib, void* old, size_t* old_length, const void* fresh,
         size_t fresh_length) {
  if (n.handler == nullptr) return ENOENT;  // the name of an inner node
  return n.handler({mib, n.argument, old, old_length, fresh, fresh_length});
}

}  // namespace

extern "C" {

TARN_API int mallctl(const char* name, void* old, size_t* old_length, void* fresh,
                     size_t fresh_length) noexcept {
  const os::errno_keeper keeper;
  if (name == nullptr) return EINVAL;
  ensure_settings();
  size_t mib[most_parts];
  size_t length = most_parts;
  const node* found = nullptr;
  const int result = find(name, mib, &length, &found);
  return result != 0 ? result : call(*found, mib, old, old_length, fresh, fresh_length);
}

TARN_API int mallctlnametomib(const char* name, size_t* mib, size_t* length) noexcept {
  const os::errno_keeper keeper;
  if (name == nullptr || mib == nullptr || length == nullptr) return EINVAL;
  ensure_settings();
  const node* found = nullptr;
  return find(name, mib, length, &found);
}

TARN_API int mallctlbymib(const size_t* mib, size_t length, void* old, size_t* old_length, void* fresh,
                          size_t fresh_length) noexcept {
  const os::errno_keeper keeper;
  if (mib == nullptr && length != 0) return EINVAL;
  ensure_settings();
  const node* found = nullptr;
  const int result = find(mib, length, &found);
  return result != 0 ? result : call(*found, mib, old, old_length, fresh, fresh_length);
}

}  // extern "C"
