# SPDX-License-Identifier: MIT
"""End-to-end: what `tarn profile` stands in front of works as without it, and what it tells of mappings is what happened."""
import json
import platform
import unittest

from harness import settings
from profile_test import MIB, ProfileBase


class hooks(ProfileBase):
    def recorded(self, mode, program, *words):
        """The output of a program under `tarn profile`, and the profile."""
        path = self.path("x.prof")
        result = self.execute(settings.tarn, "profile", "--mode", mode, "-q", "-o", path, "--", program, *words, code=0)
        return result.stdout, self.dump(path)

    def assert_as_alone(self, program):
        alone = self.execute(program, code=0).stdout
        for mode in ("full", "sample"):
            with self.subTest(mode):
                self.assertEqual(self.recorded(mode, program)[0], alone)
        return alone

    def test_a_library_in_front_of_libc_hears_the_programs_calls(self):
        library = self.compile("libhears.so", """
            #include <dlfcn.h>
            #include <stddef.h>
            #include <sys/types.h>
            #define NEXT(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))
            int heard[5];
            void* mmap(void* p, size_t n, int r, int f, int d, off_t o) { ++heard[0]; return NEXT(mmap)(p, n, r, f, d, o); }
            void* mmap64(void* p, size_t n, int r, int f, int d, off_t o) { ++heard[1]; return NEXT(mmap64)(p, n, r, f, d, o); }
            int munmap(void* p, size_t n) { ++heard[2]; return NEXT(munmap)(p, n); }
            void* mremap(void* p, size_t n, size_t m, int f, void* to) { ++heard[3]; return NEXT(mremap)(p, n, m, f, to); }
            int prctl(int o, long a, long b, long c, long d) { ++heard[4]; return NEXT(prctl)(o, a, b, c, d); }
            void _exit(int status) { NEXT(_exit)(status + 1); for (;;); }
            void _Exit(int status) { NEXT(_Exit)(status + 2); for (;;); }
            """, "-D_GNU_SOURCE", "-shared", "-fPIC", "-O1", "-w", "-fno-builtin", "-ldl", language="c")
        program = self.compile("calls", """
            #include <errno.h>
            #include <stdio.h>
            #include <stdlib.h>
            #include <sys/mman.h>
            #include <sys/prctl.h>
            #include <sys/wait.h>
            #include <unistd.h>
            extern int heard[5];
            void* mmap64(void*, size_t, int, int, int, long);
            static int status_of(pid_t child) { int status = 0; waitpid(child, &status, 0); return WEXITSTATUS(status); }
            int main() {
              for (int i = 0; i < 10; ++i) {
                void* a = mmap(0, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                void* b = mmap64(0, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                b = mremap(b, 1 << 20, 2 << 20, MREMAP_MAYMOVE);
                munmap(a, 1 << 20);
                munmap(b, 2 << 20);
                prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
              }
              errno = 0;
              int refused = munmap((void*)1, 4096);
              printf("%d %d ", refused, errno);
              errno = 0;
              void* none = mmap(0, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              printf("%d %d ", none == MAP_FAILED, errno);
              for (int i = 0; i < 5; ++i) printf("%d ", heard[i]);
              fflush(stdout);
              pid_t child = fork();
              if (child == 0) _exit(10);
              printf("%d ", status_of(child));
              fflush(stdout);
              child = fork();
              if (child == 0) _Exit(10);
              printf("%d ", status_of(child));
              fflush(stdout);
              child = vfork();
              if (child == 0) _exit(20);
              printf("%d\\n", status_of(child));
            }""", "-D_GNU_SOURCE", "-O1", "-w", "-x", "none", library, language="c")
        self.assertEqual(self.assert_as_alone(program), "-1 22 1 22 11 10 21 10 10 11 12 21\n")

    @unittest.skipUnless(platform.machine() == "x86_64", "the jump is written for x86-64")
    def test_a_jump_written_over_libcs_munmap_is_taken(self):
        program = self.compile("patched", """
            #include <dlfcn.h>
            #include <stdint.h>
            #include <stdio.h>
            #include <string.h>
            #include <sys/mman.h>
            #include <sys/syscall.h>
            #include <unistd.h>
            static volatile int heard;
            static int listen(void* p, size_t n) { ++heard; return syscall(SYS_munmap, p, n); }
            int main() {
              char* munmap_there = dlsym(dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), "munmap");
              unsigned char jump[14] = {0xff, 0x25};
              void* to = listen;
              memcpy(jump + 6, &to, 8);
              mprotect((void*)((uintptr_t)munmap_there & ~4095ul), 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
              memcpy(munmap_there, jump, sizeof jump);
              for (int i = 0; i < 10; ++i)
                munmap(mmap(0, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1 << 20);
              printf("%d\\n", heard);
            }""", "-D_GNU_SOURCE", "-O1", "-w", "-ldl", language="c")
        self.assertEqual(self.assert_as_alone(program), "10\n")

    def test_mappings_are_told_as_the_kernel_answers(self):
        program = self.compile("answers", """
            #include <stdio.h>
            #include <string.h>
            #include <sys/mman.h>
            #include <unistd.h>
            #ifndef MREMAP_DONTUNMAP
            #define MREMAP_DONTUNMAP 4
            #endif
            enum { mib = 1 << 20 };
            #define SITE __attribute__((noinline))
            #define MAP(bytes) mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
            SITE char* refused(void) { return MAP(16 * mib); }
            SITE char* stays(void) { return MAP(4 * mib); }
            SITE char* passing(void) { return MAP(32 * mib); }
            SITE char* moved(char* p, char* hint) {
              return mremap(p, 4 * mib, 4 * mib, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, hint);
            }
            int main() {
              char* a = refused();
              int results[3] = {munmap(a + 1, 16 * mib), munmap(a, 0), mremap(a, 16 * mib, 0, 0) == MAP_FAILED};
              memset(a, 1, 16 * mib);
              char* hint = passing();
              munmap(hint, 32 * mib);
              char* b = stays();
              memset(b, 1, 4 * mib);
              char* c = moved(b, hint + 16 * mib);
              int has_dontunmap = c != MAP_FAILED;
              memset(b, 2, 4 * mib);
              usleep(400000);
              printf("%d %d %d %d %d\\n", results[0], results[1], results[2], has_dontunmap,
                     !has_dontunmap || (c == hint + 16 * mib && c[0] == 1));
            }""", "-D_GNU_SOURCE", "-O1", "-g", "-w", "-fno-optimize-sibling-calls", language="c")
        output = self.assert_as_alone(program)
        self.assertRegex(output, r"^-1 -1 1 \d 1$")
        result = self.execute(settings.tarn, "profile", "--mode", "full", "-q", "-o", self.path("x.prof"), "--", program, code=0)
        split = json.loads(self.execute(settings.tarn, "show", "--by", "rss", "--json", "-n", "0", self.path("x.prof"), code=0).stdout)
        mapped = {part["name"].split("(")[0].split()[0]: part["bytes"] for part in split["parts"]["mapped"]}
        self.assert_near(mapped["refused"], 16 * MIB, 0.01)
        self.assert_near(mapped["stays"], 4 * MIB, 0.01)
        if output.split()[3] == "1":
            self.assert_near(mapped["moved"], 4 * MIB, 0.01)
        self.assertLessEqual(split["at"]["other"], 1 * MIB, result.stderr)

    def test_a_handler_that_jumps_out_of_a_hook_costs_what_it_interrupts(self):
        program = self.compile("jumps", """
            #include <setjmp.h>
            #include <signal.h>
            #include <stdio.h>
            #include <stdlib.h>
            #include <string.h>
            #include <sys/mman.h>
            #include <sys/time.h>
            static sigjmp_buf out;
            static volatile sig_atomic_t jumps, may;
            static volatile unsigned long rounds;
            static void jump(int signal) {
              if (!may) return;
              may = 0;
              ++jumps;
              siglongjmp(out, 1);
            }
            #define SITE __attribute__((noinline))
            SITE void map_and_unmap(unsigned long count) {
              char frame[8192];
              asm volatile("" : : "r"(frame) : "memory");
              for (unsigned long i = 0; i < count; ++i, ++rounds)
                munmap(mmap(0, 65536, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 65536);
            }
            SITE void after(int count, void* volatile* kept) { for (int i = 0; i < count; ++i) *kept = malloc(100); }
            SITE void after_from_below(void* volatile* kept) {
              char frame[16384];
              *kept = memset(frame, 0, sizeof frame);
              after(1, kept);
              asm("");
            }
            int main() {
              void* volatile kept = 0;
              map_and_unmap(10);  // what a recorder does at a thread's first calls is over
              signal(SIGALRM, jump);
              struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
              setitimer(ITIMER_REAL, &often, 0);
              if (sigsetjmp(out, 1)) jumps % 2 ? after(1, &kept) : after_from_below(&kept);
              may = 1;
              if (jumps < 400) map_and_unmap(~0ul);
              may = 0;
              setitimer(ITIMER_REAL, &never, 0);
              after(1000, &kept);
              printf("%d %lu\\n", (int)jumps, rounds);
            }""", "-D_GNU_SOURCE", "-O1", "-g", "-w", "-fno-builtin", language="c")
        output, known = self.recorded("full", program)
        jumps, rounds = map(int, output.split())
        self.assertLessEqual(known["lost_events"], jumps)
        self.assertEqual(self.figures(known, "after")["allocations"], 1000 + jumps)
        self.assertGreaterEqual(self.figures(known, "map_and_unmap")["maps"], rounds)
        self.recorded("sample", program)

    def test_a_handler_on_a_stack_of_its_own_interrupts_a_hook(self):
        program = self.compile("elsewhere", """
            #include <signal.h>
            #include <stdio.h>
            #include <stdlib.h>
            #include <sys/time.h>
            #define SITE __attribute__((noinline))
            static volatile int handled;
            SITE void* made(void) { void* volatile p = malloc(100); return p; }
            SITE void handle(int signal) { ++handled; free(made()); }
            int main() {
              char room[65536];  // above the frames that the handler interrupts
              stack_t other = {.ss_sp = room, .ss_size = sizeof room};
              sigaltstack(&other, 0);
              struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK | SA_RESTART};
              sigaction(SIGALRM, &action, 0);
              struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
              free(made());
              setitimer(ITIMER_REAL, &often, 0);
              for (int i = 1; i < 300000; ++i) free(made());
              setitimer(ITIMER_REAL, &never, 0);
              printf("%d\\n", handled);
            }""", "-D_GNU_SOURCE", "-O1", "-g", "-w", "-fno-builtin", language="c")
        output, known = self.recorded("full", program)
        handled = int(output)
        # An interrupted event is whole; of the handler's own two the interrupted hook records none.
        self.assertGreater(known["lost_events"], 0)
        self.assertEqual(self.figures(known, "made")["allocations"], 300000 + handled - known["lost_events"] / 2)
