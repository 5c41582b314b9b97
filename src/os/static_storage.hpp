// SPDX-License-Identifier: MIT
// static_storage: whether an object has static storage duration, so that its destructor runs when the process exits or
// its library is unloaded.
// Thread safety: any thread; takes the dynamic linker's lock.
#pragma once

namespace tarn::os {

// Whether the address lies in a writable segment of the program or of a loaded library.
bool is_in_static_storage(const void* address);

}  // namespace tarn::os
