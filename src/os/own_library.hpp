// SPDX-License-Identifier: MIT
// own_library: keeps the shared library that contains the engine loaded. After dlclose, threads still end and call the
// engine's destructor, its background thread and its handlers still run, and its blocks are still in use.
#pragma once

namespace tarn::os {

#pragma GCC visibility push(hidden)

// tarn's own shared libraries are linked with -z nodelete. An archive may have become part of another library, which a
// program may close: that library is opened once more, for good. Does nothing in a program. Called by a constructor,
// without locks; may allocate.
void keep_own_library_loaded();

#pragma GCC visibility pop

}  // namespace tarn::os
