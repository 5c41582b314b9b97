// SPDX-License-Identifier: MIT
// Loads the libraries that are named one after another, each after the one before has gone, and calls `make` of each. The
// same source is these libraries: MAKER is the name of the function that allocates there.
#include <cstdlib>

#ifdef MAKER
extern "C" [[gnu::noinline]] void* MAKER() { return std::malloc(100000); }
extern "C" void make() { std::free(MAKER()); }
#else
#include <dlfcn.h>

int main(int count, char** words) {
  for (int index = 1; index < count; ++index) {
    void* library = dlopen(words[index], RTLD_NOW);
    if (library == nullptr) return 1;
    reinterpret_cast<void (*)()>(dlsym(library, "make"))();
    dlclose(library);
  }
}
#endif
