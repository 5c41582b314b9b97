/* SPDX-License-Identifier: MIT
 * What code that was compiled with the headers of a newer glibc calls, and an older glibc does not have; made of what it
 * has. stubs.py compiles this file once for each thing that is missing, and puts the objects into the linker's libc.so as an
 * archive: only what is called comes into a program.
 */
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#ifdef TARN_MISSING_stat /* before 2.33 the headers called these by other names, with the version of the structure */
#if defined(__x86_64__)
enum { stat_version = 1 };
#else
enum { stat_version = 0 };
#endif
extern int __fxstatat(int version, int folder, const char* path, struct stat* out, int flags);
extern int __fxstat(int version, int file, struct stat* out);

int stat(const char* restrict path, struct stat* restrict out) {
  return __fxstatat(stat_version, AT_FDCWD, path, out, 0);
}
int lstat(const char* restrict path, struct stat* restrict out) {
  return __fxstatat(stat_version, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
int fstat(int file, struct stat* out) { return __fxstat(stat_version, file, out); }
int fstatat(int folder, const char* restrict path, struct stat* restrict out, int flags) {
  return __fxstatat(stat_version, folder, path, out, flags);
}
/* struct stat and struct stat64 are the same on 64-bit systems. */
int stat64(const char* restrict path, struct stat64* restrict out) { return stat(path, (struct stat*)out); }
int lstat64(const char* restrict path, struct stat64* restrict out) { return lstat(path, (struct stat*)out); }
int fstat64(int file, struct stat64* out) { return fstat(file, (struct stat*)out); }
int fstatat64(int folder, const char* restrict path, struct stat64* restrict out, int flags) {
  return fstatat(folder, path, (struct stat*)out, flags);
}
#endif

#ifdef TARN_MISSING___libc_single_threaded
char __libc_single_threaded = 0; /* reference counts are always atomic */
#endif

#ifdef TARN_MISSING_sigdescr_np
const char* sigdescr_np(int signal) { return signal >= 1 && signal <= SIGSYS ? strsignal(signal) : NULL; }
#endif

#ifdef TARN_MISSING_arc4random /* std::random_device */
unsigned int arc4random(void) {
  unsigned int number = 0;
  while (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
  }
  return number;
}
#endif

#ifdef TARN_MISSING___isoc23_strtol
/* From 2.38 on, the headers call these by other names, which also read binary numbers. The headers that compile this file
 * do the same, so the old ones are declared by their labels. */
extern long old_strtol(const char*, char**, int) __asm__("strtol");
extern unsigned long old_strtoul(const char*, char**, int) __asm__("strtoul");
extern long long old_strtoll(const char*, char**, int) __asm__("strtoll");
extern unsigned long long old_strtoull(const char*, char**, int) __asm__("strtoull");

long __isoc23_strtol(const char* text, char** end, int base) { return old_strtol(text, end, base); }
unsigned long __isoc23_strtoul(const char* text, char** end, int base) {
  return old_strtoul(text, end, base);
}
long long __isoc23_strtoll(const char* text, char** end, int base) { return old_strtoll(text, end, base); }
unsigned long long __isoc23_strtoull(const char* text, char** end, int base) {
  return old_strtoull(text, end, base);
}
#endif

#ifdef TARN_MISSING___libc_start_main
/* From 2.34 on, libc runs the program's constructors; before, a function that was linked into each program did, and the
 * program's start passed it. The start file of this system passes none. */
typedef int main_function(int, char**, char**);
typedef void constructor(int, char**, char**);
extern int real_start(main_function* main, int argc, char** argv, constructor* construct,
                      void (*destroy)(void), void (*loader_end)(void), void* stack_end);
__asm__(".symver real_start, __libc_start_main@" TARN_START_VERSION);

extern constructor* const __preinit_array_start[] __attribute__((visibility("hidden")));
extern constructor* const __preinit_array_end[] __attribute__((visibility("hidden")));
extern constructor* const __init_array_start[] __attribute__((visibility("hidden")));
extern constructor* const __init_array_end[] __attribute__((visibility("hidden")));
extern void _init(void) __attribute__((visibility("hidden")));

static void construct_all(int argc, char** argv, char** variables) {
  for (constructor* const* each = __preinit_array_start; each != __preinit_array_end; ++each)
    (*each)(argc, argv, variables);
  _init();
  for (constructor* const* each = __init_array_start; each != __init_array_end; ++each)
    (*each)(argc, argv, variables);
}

int __libc_start_main(main_function* main, int argc, char** argv, constructor* construct,
                      void (*destroy)(void), void (*loader_end)(void), void* stack_end) {
  (void)construct;
  (void)destroy;
  return real_start(main, argc, argv, construct_all, NULL, loader_end, stack_end);
}
#endif
