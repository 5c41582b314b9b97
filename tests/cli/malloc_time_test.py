# SPDX-License-Identifier: MIT
"""End-to-end: the time in malloc that a recording states, for programs whose share of time in malloc is known."""
import errno
import json

from cost_test import forbid_perf_event_open
from harness import settings
from profile_test import ProfileBase, sees_faults

# How often malloc, free and the program run one and the same loop body per block. Each turn depends on the one before,
# so all take the same time. A processor reads its counter before the last turns are done: timed calls come out a
# quarter too short.
STEPS = {"malloc": 400, "free": 200, "program": 900}
SHARE = (STEPS["malloc"] + STEPS["free"]) / sum(STEPS.values())
ROUNDS = 200000  # 0.3 s and more

STEP = """
static inline unsigned long work(unsigned long value, int steps) {
  for (int step = 0; step < steps; ++step) {
    value *= 0x9e3779b97f4a7c15UL;
    asm volatile("" : "+r"(value));
  }
  return value;
}
"""

# A malloc with one free list per size. Only blocks of 64 bytes, which are the program's, take time.
MALLOC = STEP + """
#include <stddef.h>
#include <string.h>
alignas(16) static char memory[64 << 20];
static size_t used;
static void* free_blocks[4096];
static unsigned long sum;
static size_t space_of(void* block) {
  size_t space;
  memcpy(&space, (char*)block - 16, sizeof space);
  return space;
}
static void* take(size_t size) {
  const size_t space = (size + 31) / 16 * 16;
  if (void* block = space / 16 < 4096 ? free_blocks[space / 16] : nullptr) {
    memcpy(&free_blocks[space / 16], block, sizeof block);
    return block;
  }
  if (space > sizeof memory - used) return nullptr;
  memcpy(memory + used, &space, sizeof space);
  used += space;
  return memory + used - space + 16;
}
extern "C" {
void* malloc(size_t size) noexcept {
  if (size == 64) sum = work(sum + 1, MALLOC_STEPS);
  return take(size);
}
void free(void* block) noexcept {
  if (!block) return;
  const size_t space = space_of(block);
  if (space == 80) sum = work(sum + 1, FREE_STEPS);
  if (space / 16 >= 4096) return;
  memcpy(block, &free_blocks[space / 16], sizeof block);
  free_blocks[space / 16] = block;
}
void* calloc(size_t count, size_t size) noexcept {
  void* block = take(count * size);
  return block ? memset(block, 0, count * size) : nullptr;
}
void* realloc(void* block, size_t size) noexcept {
  void* other = take(size);
  if (block && other) memcpy(other, block, space_of(block) - 16 < size ? space_of(block) - 16 : size);
  return other;
}
void* memalign(size_t, size_t size) noexcept { return take(size); }
void* aligned_alloc(size_t, size_t size) noexcept { return take(size); }
int posix_memalign(void** block, size_t, size_t size) noexcept { return *block = take(size), 0; }
}
"""

PROGRAM = STEP + """
#include <stdio.h>
#include <stdlib.h>
int main(int, char** words) {
  unsigned long sum = 0;
  for (long round = atol(words[1]); round > 0; --round) {
    char* volatile block = (char*)malloc(64);
    block[0] = 1;
    sum = work(sum + block[0], PROGRAM_STEPS);
    free(block);
  }
  printf("%lu\\n", sum);
}
"""

# The same work, but malloc is called only in threads that end within the clock's first period.
SHORT_THREADS = STEP + """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static unsigned long sum;
static void* allocate(void*) {
  for (int round = 0; round < 500; ++round) {
    char* volatile block = (char*)malloc(64);
    block[0] = 1;
    sum += block[0];
    free(block);
  }
  return nullptr;
}
int main(int, char** words) {
  const long rounds = atol(words[1]);
  for (long round = rounds; round > 0; --round) sum = work(sum + round, PROGRAM_STEPS);
  for (long thread = rounds / 500; thread > 0; --thread) {
    pthread_t id;
    if (pthread_create(&id, nullptr, allocate, nullptr) != 0 || pthread_join(id, nullptr) != 0) return 1;
  }
  printf("%lu\\n", sum);
}
"""


class malloc_time(ProfileBase):
    def setUp(self):
        super().setUp()
        self.flags = ["-O2", "-fno-builtin", *(f"-D{part.upper()}_STEPS={steps}" for part, steps in STEPS.items())]

    def program(self, malloc=MALLOC, program=PROGRAM):
        library = self.compile("libsteps.so", malloc, *self.flags, "-shared", "-fPIC")
        return self.compile("program", program, *self.flags, "-pthread", "-x", "none", library, "-Wl,-rpath," + self.folder)

    def recording(self, program, rounds, **more):
        """Records the program. Returns the recording's meta, the stated time in malloc, and its known share."""
        path = self.path("x.prof")
        result = self.execute(settings.tarn, "profile", "--no-events", "--json", "-o", path, "--", program, str(rounds), **more,
                              code=0)
        told = json.loads(result.stderr[result.stderr.index("{"):])["program"]
        return self.dump(path)["meta"], told, SHARE * told["processor_ns"]

    def recorded(self, program, rounds=ROUNDS, **more):
        """As recording(), but returns the meta alone: the stated time in malloc must be the known share within its
        margin, whether it comes from the clock or from timed calls. As one margin in twenty does not hold the truth, two
        more recordings decide after a miss: both must hold it."""
        missed = []
        for attempt in range(3):
            meta, told, truth = self.recording(program, rounds, **more)
            if abs(told["malloc_ns"] - truth) > told["margin_ns"] + 0.03 * truth:
                missed.append((told, truth, meta["malloc_time"]))
            if len(missed) > 1 or (attempt == 0 and not missed):
                break
        self.assertLess(len(missed), 2, missed)
        return meta

    def assert_told_of_timed_calls(self, meta, *phrases):
        self.assertEqual((meta["malloc_time"]["clock_part"], meta["malloc_time"]["factor"]), (0, 1))
        sentences = [one for one in meta["refused"] if "that of timed calls alone" in one]
        self.assertEqual(len(sentences), 1, meta["refused"])
        for phrase in phrases:
            self.assertIn(phrase, sentences[0])

    def test_a_malloc_in_its_own_library_is_measured_by_the_clock(self):
        if not sees_faults()[0]:
            self.skipTest("perf_event_open is refused")
        meta = self.recorded(self.program(), 4 * ROUNDS)
        time = meta["malloc_time"]
        # Not more, as the clock's period is longer where a sample takes long.
        samples = time["samples"] - time["in_recorder"]
        self.assertGreater(samples, 100)
        self.assertGreater(time["clock_part"], 0.8)
        self.assertLess(time["systematic_error"] ** 2 + time["clock_error"] ** 2, 0.2 ** 2)
        # Four standard errors, and 0.02 for the recorder's own code around malloc.
        margin = 4 * (SHARE * (1 - SHARE) / samples) ** 0.5 + 0.02
        self.assertAlmostEqual(time["in_malloc"] / samples, SHARE, delta=margin)
        self.assertFalse([one for one in meta["refused"] if "timed calls" in one])

    def test_a_malloc_in_a_large_library_is_measured_by_timed_calls(self):
        if not sees_faults()[0]:
            self.skipTest("perf_event_open is refused")
        large = MALLOC + 'asm(".text\\n.skip 3000000");'
        self.assert_told_of_timed_calls(self.recorded(self.program(large)), "libsteps.so", "has other code besides")

    def test_without_perf_events_timed_calls_measure(self):
        meta = self.recorded(self.program(), preexec_fn=lambda: forbid_perf_event_open(errno.EPERM))
        self.assert_told_of_timed_calls(meta, "the kernel refuses them")


class short_threads(malloc_time):
    """Not in each run: on some machines the margin of such a program, 0.4 of its time in malloc, is too narrow more often
    than once in twenty recordings. One idle virtual machine missed it in four of six runs of this test."""

    def test_threads_too_short_for_a_sample_are_uncertain_and_not_free(self):
        self.recorded(self.program(program=SHORT_THREADS))
