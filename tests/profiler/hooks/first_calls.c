// SPDX-License-Identifier: MIT
// Threads whose first allocation is one that libc makes while it holds a lock: what watches allocations must not wait for
// that lock. Each step runs in a thread of its own; one that does not end within the time limit ends the program by 1.
// The steps that call for the first time what a recorder forwards (operator new, prctl, …) come first.
//
// Usage: first_calls LIBRARY SECONDS   LIBRARY: the path of first_calls_library; SECONDS: the time limit
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <iconv.h>
#include <link.h>
#include <locale.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

typedef void action(void);

// operator new and delete, if something that is preloaded has them.
extern void* _Znwm(size_t size) __attribute__((weak));
extern void _ZdlPv(void* block) __attribute__((weak));

static const char* library;
static const char* volatile step = "";
static void* volatile sink;

static void end_badly(const char* what) {
  char text[256];
  const int length = snprintf(text, sizeof text, "%s: %s\n", step, what);
  const ssize_t written = write(2, text, (size_t)length);
  (void)written;
  syscall(SYS_exit_group, 1);
}

static void too_late(int signal) {
  (void)signal;
  end_badly("does not end");
}

static void expect(int good, const char* what) {
  if (!good) end_badly(what);
}

static void* run(void* what) {
  ((action*)(uintptr_t)what)();
  return NULL;
}

static void in_thread(action* what) {
  pthread_t thread;
  expect(pthread_create(&thread, NULL, run, (void*)(uintptr_t)what) == 0, "pthread_create fails");
  pthread_join(thread, NULL);
}

static void allocate(void) {
  sink = malloc(100);
  free(sink);
}

// ---- what happens while another thread holds the dynamic linker's lock ----

static void allocate_by_new(void) {
  if (_Znwm == NULL || _ZdlPv == NULL) return;
  sink = _Znwm(100);
  _ZdlPv(sink);
}
static void name_thread(void) { pthread_setname_np(pthread_self(), "named"); }
static void call_prctl(void) { prctl(PR_SET_NAME, "called", 0, 0, 0); }
static void call_syscall(void) { expect(syscall(SYS_getpid) == getpid(), "syscall fails"); }
static void map_memory(void) {
  void* const memory = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* const moved = mremap(memory, 65536, 131072, MREMAP_MAYMOVE);
  expect(memory != MAP_FAILED && moved != MAP_FAILED && munmap(moved, 131072) == 0,
         "memory cannot be mapped");
}
static void allocate_in_every_way(void) {
  sink = realloc(NULL, 100);
  sink = realloc(sink, 100000);
  free(sink);
  sink = aligned_alloc(64, 128);
  free(sink);
  sink = calloc(3, 5000000);
  free(sink);
}

static void wait_for_threads(void) {
  in_thread(allocate_by_new);
  in_thread(call_prctl);
  in_thread(call_syscall);
  in_thread(name_thread);
  in_thread(allocate);
  in_thread(map_memory);
  in_thread(allocate_in_every_way);
}

void library_begins(void) { wait_for_threads(); }
void library_ends(void) { wait_for_threads(); }

static void open_and_close_library(void) {
  void* const opened = dlopen(library, RTLD_NOW);
  expect(opened != NULL, "the library cannot be opened");
  expect(dlclose(opened) == 0, "the library cannot be closed");
}

static int look_at_library(struct dl_phdr_info* info, size_t size, void* unused) {
  (void)info;
  (void)size;
  (void)unused;
  wait_for_threads();
  return 1;
}
static void visit_libraries(void) { dl_iterate_phdr(look_at_library, NULL); }

// ---- allocations under other locks of libc ----

static void ask_for_own_stack(void) {
  pthread_attr_t attributes;
  expect(pthread_getattr_np(pthread_self(), &attributes) == 0, "pthread_getattr_np fails");
  pthread_attr_destroy(&attributes);
}

static void at_exit(void) { allocate(); }
static void register_at_exit(void) {
  for (int i = 0; i < 100; ++i) atexit(at_exit);
}

static void change_locale(void) {
  setlocale(LC_ALL, "C.UTF-8");
  setlocale(LC_ALL, "C");
  const locale_t made = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);
  if (made != (locale_t)0) freelocale(made);
}

static void find_address(void) {
  struct addrinfo* found = NULL;
  if (getaddrinfo("localhost", "http", NULL, &found) == 0) freeaddrinfo(found);
}

static void read_lines(void) {
  FILE* const file = fopen("/proc/self/maps", "r");
  expect(file != NULL, "/proc/self/maps cannot be opened");
  char* line = NULL;
  size_t room = 0;
  while (getline(&line, &room, file) > 0) {
  }
  free(line);
  fclose(file);
}

static void change_environment(void) {
  setenv("FIRST_CALLS", "1", 1);
  unsetenv("FIRST_CALLS");
}
static void read_time_zone(void) {
  setenv("TZ", "Europe/Berlin", 1);
  const time_t now = time(NULL);
  struct tm parts;
  tzset();
  localtime_r(&now, &parts);
}
static void read_folder(void) {
  DIR* const folder = opendir("/");
  while (folder != NULL && readdir(folder) != NULL) {
  }
  if (folder != NULL) closedir(folder);
}
static void find_user(void) { getpwuid(0); }
static void convert_text(void) {
  const iconv_t converter = iconv_open("UTF-16", "UTF-8");
  if (converter != (iconv_t)-1) iconv_close(converter);
}
static void name_error(void) { sink = strerror(12345); }
static void run_command(void) {
  FILE* const command = popen("true", "r");
  if (command != NULL) pclose(command);
}

// ---- keys, fork, stacks ----

static pthread_key_t keys[40];  // beyond 32 libc allocates the room for their values

static void end_value(void* unused) {
  (void)unused;
  allocate();
  pthread_setspecific(keys[39], &keys[39]);  // for another round
}
static void set_values(void) {
  for (int i = 0; i < 40; ++i) pthread_setspecific(keys[i], &keys[i]);
}
static void use_keys(void) {
  for (int i = 0; i < 40; ++i) expect(pthread_key_create(&keys[i], end_value) == 0, "there is no key");
  in_thread(set_values);
  for (int i = 0; i < 40; ++i) pthread_key_delete(keys[i]);
}

static void around_fork(void) { in_thread(allocate); }
static void in_forked_child(void) { allocate(); }
static void fork_child(void) {
  const pid_t child = fork();
  if (child == 0) {
    in_thread(ask_for_own_stack);
    _exit(0);
  }
  int status = -1;
  expect(waitpid(child, &status, 0) == child && status == 0, "the child fails");
}
static void fork_between_handlers(void) {
  for (int i = 0; i < 100; ++i) pthread_atfork(NULL, NULL, NULL);  // their list grows under a lock
  pthread_atfork(around_fork, around_fork, in_forked_child);
  fork_child();
}

static ucontext_t thread_context;
static ucontext_t coroutine;

static char* new_stack(size_t bytes) {
  char* const memory = mmap(NULL, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect(memory != MAP_FAILED && mprotect(memory + 4096, bytes, PROT_READ | PROT_WRITE) == 0,
         "there is no memory");
  return memory + 4096;
}
static void allocate_on_coroutine(void) {
  getcontext(&coroutine);
  coroutine.uc_stack.ss_sp = new_stack(65536);
  coroutine.uc_stack.ss_size = 65536;
  coroutine.uc_link = &thread_context;
  makecontext(&coroutine, allocate, 0);
  swapcontext(&thread_context, &coroutine);
  allocate();
}

static void on_signal(int signal) {
  (void)signal;
  allocate();
}
static void allocate_on_signal_stack(void) {
  stack_t stack = {0};
  stack.ss_sp = new_stack(65536);
  stack.ss_size = 65536;
  sigaltstack(&stack, NULL);
  struct sigaction reaction = {0};
  reaction.sa_handler = on_signal;
  reaction.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &reaction, NULL);
  pthread_kill(pthread_self(), SIGUSR1);
  allocate();
}

// Returns the caller's frame, so that it is no tail call.
static char deep(int left) {
  volatile char room[65536];
  room[left] = 1;
  if (left == 0) {
    allocate();
  } else {
    room[0] = deep(left - 1);
  }
  return room[left];
}
static void allocate_deep(void) {
  deep(100);
  allocate();
}

static void allocate_on_own_memory(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, new_stack(1 << 20), 1 << 20);
  expect(pthread_create(&thread, &attributes, run, (void*)(uintptr_t)ask_for_own_stack) == 0,
         "pthread_create fails");
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
}

int main(int count, char** arguments) {
  static const struct {
    const char* name;
    action* what;
  } steps[] = {{"dlopen and dlclose with threads in constructor and destructor", open_and_close_library},
               {"threads in a callback of dl_iterate_phdr", visit_libraries},
               {"pthread_getattr_np", ask_for_own_stack},
               {"atexit", register_at_exit},
               {"setlocale", change_locale},
               {"getaddrinfo", find_address},
               {"fopen and getline", read_lines},
               {"setenv", change_environment},
               {"localtime", read_time_zone},
               {"opendir", read_folder},
               {"getpwuid", find_user},
               {"iconv_open", convert_text},
               {"strerror", name_error},
               {"popen", run_command},
               {"destructors of keys", use_keys},
               {"fork", fork_child},
               {"pthread_atfork", fork_between_handlers},
               {"a coroutine's stack", allocate_on_coroutine},
               {"a signal's stack", allocate_on_signal_stack},
               {"a deep stack", allocate_deep},
               {"a stack of the program's own", allocate_on_own_memory}};
  if (count != 3) return 2;
  library = arguments[1];
  signal(SIGALRM, too_late);
  alarm((unsigned)atoi(arguments[2]));
  for (size_t i = 0; i < sizeof steps / sizeof *steps; ++i) {
    step = steps[i].name;
    in_thread(steps[i].what);
  }
  step = "exit";
  return 0;
}
