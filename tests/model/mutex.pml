/* SPDX-License-Identifier: MIT
 *
 * The lock of src/os/mutex.hpp and how fork takes it (src/runtime/fork.cpp), explored in every interleaving by spin.
 *
 *   word:    0, or the holder's number with flags: contended, forking (held by fork), nested (locked again by the
 *            thread that forks)
 *   lock:    0 -> mine; held by my own fork: set nested, go on; else, until 0 -> mine|contended: set contended, sleep as
 *            long as the word is what it was
 *   unlock:  mine -> 0; nested: clear nested; else swap in 0, and wake one sleeper if it was contended
 *   fork:    0 -> mine|forking; mine: leave it; else as lock, but with a limit of time, after which it goes on without
 *            the lock if its thread holds another one in an interrupted section
 *   after:   release the lock if it is mine|forking
 *
 * Spin explores sequentially consistent interleavings, and that is the right model here: one word decides, and what the
 * lock guards is published by the release and the acquire of its changes.
 *
 * There are two locks, A and B. Two threads take A and then B, ROUNDS times. A third thread forks in the order A, B: from
 * its main program (then it locks both again inside, as fork handlers of other libraries do), or from a signal handler
 * that has interrupted its own section of B.
 * Checked at every step: nobody is in a section of a lock beside another thread; a fork from the main program has both
 * locks. And at the end: every process comes to its end, both locks are free.
 *
 * Each of these macros takes a part away; the check must then fail (CMakeLists.txt):
 *   NO_CONTENDED_AFTER_SLEEP  who has slept takes the lock without the flag
 *   UNLOCK_FREES_NESTED       the inner unlock frees the lock that fork holds
 *   RELEASE_ALL               fork releases what its thread held before
 *   NEVER_GIVES_UP            fork in a signal handler waits for ever for A, whose holder waits for B
 */

#define ROUNDS 2
#define CONTENDED 1
#define FORKING 2
#define NESTED 4
#define MINE (8 * (_pid + 1))
#define HOLDER(w) ((w) & 248)

byte word[2];
bool asleep[3 * 2]; /* by thread, then lock */
bool has_limit;     /* the forking thread sleeps for a limited time */
byte inside[2];
byte done;

#define ASLEEP(l) asleep[(_pid - 1) * 2 + (l)]

inline come_in(l) { atomic { inside[l]++; assert(inside[l] == 1) } }
inline go_out(l) { inside[l]-- }

inline wake_one(l) {
  atomic {
    if
    :: asleep[l] -> asleep[l] = false
    :: asleep[2 + l] -> asleep[2 + l] = false
    :: asleep[4 + l] -> asleep[4 + l] = false
    :: else -> skip
    fi
  }
}

/* One look, and one sleep if it is still so: the kernel compares and puts to sleep in one step. */
inline sleep(l, may_time_out, timed_out) {
  timed_out = false;
  seen = word[l];
  if
  :: seen == 0 -> skip
  :: else ->
     if
     :: (seen & CONTENDED) == 0 ->
        atomic {
          if
          :: word[l] == seen -> seen = seen | CONTENDED; word[l] = seen
          :: else -> seen = 0
          fi
        }
     :: else -> skip
     fi;
     if
     :: seen != 0 ->
        atomic {
          if
          :: word[l] == seen -> ASLEEP(l) = true; has_limit = has_limit || may_time_out
          :: else -> skip
          fi
        };
        if
        :: !ASLEEP(l) -> skip
        /* The time is over only where nothing else can happen. */
        :: may_time_out && timeout -> ASLEEP(l) = false; timed_out = true
        fi;
        has_limit = has_limit && !may_time_out
     :: else -> skip
     fi
  fi
}

inline take(l, flags) {
  got = false;
  atomic { if :: word[l] == 0 -> word[l] = MINE | flags; got = true :: else -> skip fi }
}

#ifdef NO_CONTENDED_AFTER_SLEEP
#define AFTER_SLEEP 0
#else
#define AFTER_SLEEP CONTENDED
#endif

inline acquire(l) {
  take(l, 0);
  do
  :: got -> break
  :: else ->
     if
     :: HOLDER(word[l]) == MINE && (word[l] & FORKING) != 0 ->
        atomic { word[l] = word[l] | NESTED };
        got = true
     :: else ->
        sleep(l, false, over);
        take(l, AFTER_SLEEP)
     fi
  od
}

inline free_word(l) {
  atomic { seen = word[l]; word[l] = 0 };
  if
  :: (seen & CONTENDED) != 0 -> wake_one(l)
  :: else -> skip
  fi
}

inline release(l) {
#ifndef UNLOCK_FREES_NESTED
  if
  :: (word[l] & NESTED) != 0 -> atomic { word[l] = word[l] & 251 }
  :: else -> free_word(l)
  fi
#else
  free_word(l)
#endif
}

inline take_for_fork(l) {
  take(l, FORKING);
  do
  :: got || HOLDER(word[l]) == MINE -> break
  :: else ->
#ifdef NEVER_GIVES_UP
     sleep(l, false, over);
#else
     sleep(l, interrupted, over);
#endif
     if
     :: over -> break
     :: else -> take(l, FORKING | CONTENDED)
     fi
  od
}

inline release_for_fork(l) {
  if
#ifdef RELEASE_ALL
  :: HOLDER(word[l]) == MINE -> free_word(l)
#else
  :: HOLDER(word[l]) == MINE && (word[l] & FORKING) != 0 -> free_word(l)
#endif
  :: else -> skip
  fi
}

proctype user() {
  byte i = 0, seen = 0;
  bool got, over;
  do
  :: i < ROUNDS ->
     acquire(0);
     come_in(0);
     acquire(1);
     come_in(1);
     go_out(1);
     release(1);
     go_out(0);
     release(0);
     i++
  :: else -> break
  od;
  done++
}

proctype forker() {
  byte seen = 0;
  bool got, over, interrupted;
  if
  :: interrupted = false
  :: interrupted = true;
     acquire(1);
     come_in(1)
  fi;
  /* fork */
  take_for_fork(0);
  take_for_fork(1);
  if
  :: !interrupted ->
     come_in(0);
     come_in(1);
     /* A fork handler of another library. */
     acquire(0);
     release(0);
     acquire(1);
     release(1);
     go_out(1);
     go_out(0)
  :: else -> skip
  fi;
  release_for_fork(1);
  release_for_fork(0);
  /* The handler returns. */
  if
  :: interrupted -> go_out(1); release(1)
  :: else -> skip
  fi;
  done++
}

init {
  atomic {
    run user();
    run user();
    run forker()
  };
  if
  :: done == 3 -> assert(word[0] == 0 && word[1] == 0)
  :: timeout && !has_limit -> assert(done == 3) /* somebody waits for ever */
  fi
}
