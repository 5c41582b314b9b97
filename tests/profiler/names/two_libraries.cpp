// SPDX-License-Identifier: MIT
// Loads the libraries that its arguments name, one after another, calls `make` of each, and closes each before the
// next. Compiled with -DMAKER=NAME, this source is such a library: NAME is the function that allocates.
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
