// SPDX-License-Identifier: MIT
// Loads the libraries that its arguments name, one after another, calls `make` of each, and closes each before the next.
// Words among them: --threads: each library is used by a thread of its own, and --keep: none is closed, from there on;
// --to FOLDER: goes into a folder; --root FOLDER: has it as its root; --move FROM TO: renames a file.
// Compiled with -DMAKER=NAME, this source is such a library: NAME is the function that allocates. With -DNEEDS it is a
// program that is linked with one.
#include <cstdlib>

#if defined MAKER
extern "C" [[gnu::noinline]] void* MAKER() { return std::malloc(100000); }
extern "C" void make() { std::free(MAKER()); }
#elif defined NEEDS
extern "C" void make();

int main() { make(); }
#else
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <thread>

namespace {

bool use(const char* path, bool keep) {
  void* library = dlopen(path, RTLD_NOW);
  if (library == nullptr) return false;
  reinterpret_cast<void (*)()>(dlsym(library, "make"))();
  if (!keep) dlclose(library);
  return true;
}

}  // namespace

int main(int count, char** words) {
  bool keep = false;
  bool in_threads = false;
  bool good = true;
  for (int index = 1; index < count && good; ++index) {
    if (std::strcmp(words[index], "--keep") == 0) {
      keep = true;
    } else if (std::strcmp(words[index], "--threads") == 0) {
      in_threads = true;
    } else if (std::strcmp(words[index], "--to") == 0) {
      good = chdir(words[++index]) == 0;
    } else if (std::strcmp(words[index], "--root") == 0) {
      good = chroot(words[++index]) == 0;
    } else if (std::strcmp(words[index], "--move") == 0) {
      good = std::rename(words[index + 1], words[index + 2]) == 0;
      index += 2;
    } else if (in_threads) {
      std::thread([&] { good = use(words[index], keep); }).join();
    } else {
      good = use(words[index], keep);
    }
  }
  return good ? 0 : 1;
}
#endif
