/* SPDX-License-Identifier: MIT
 *
 * The lock of src/os/mutex.hpp and how fork takes it (src/engine/fork.cpp), explored in every interleaving by spin.
 *
 *   word:    0, or the holder's number with flags: contended, forking (held by fork), nested (locked again by the
 *            thread that forks), awaited (a fork has waited for the holder and gone on without the lock)
 *   lock:    0 -> mine; held by my own fork: set nested, go on; else, until 0 -> mine|contended: set contended, sleep
 *            while the word keeps its value
 *   unlock:  mine -> 0; nested: clear nested; else swap in 0, and wake one sleeper if it was contended
 *   fork:    0 -> mine|forking; mine: leave it; else as lock, but if its thread holds another lock in a section that a
 *            signal has interrupted, only for a limited time, after which fork goes on without the lock. It marks the
 *            lock that it goes on without as awaited, and the lock of the interrupted section as contended, so that the
 *            end of the section takes the slow path, which forgets that the thread has waited. A further fork in the
 *            same section does not wait again for a holder that has been awaited, but waits for every other one
 *   after fork: release the lock if it is mine|forking
 *
 * Spin explores sequentially consistent interleavings, and that is the right model here: each lock is one word, and the
 * release and acquire of its changes publish the data that the lock guards.
 *
 * There are two locks, A and B. Two threads take A and then B, ROUNDS times. With THIRD_LOCK there is a lock C, which
 * one of them takes instead. A third thread forks, which takes the locks in the order A, B, C: either from its main
 * program (then it locks A and B again inside, as fork handlers of other libraries do), or twice from signal handlers
 * that have interrupted its own section of B.
 * Checked at every step: at most one thread is in the section of a lock; a fork from the main program has all locks; a
 * fork goes on without a lock only if its holder has been awaited, and in one section it waits at most once for each
 * holder. And at the end: every process ends, all locks are free, and no wait is remembered.
 *
 * Each of these macros takes a part away; the check must then fail (CMakeLists.txt):
 *   NO_CONTENDED_AFTER_SLEEP  a thread that has slept takes the lock without the flag contended
 *   UNLOCK_FREES_NESTED       the inner unlock frees the lock that fork holds
 *   RELEASE_ALL               fork also releases the locks that its thread held before
 *   NEVER_GIVES_UP            fork in a signal handler waits for A without a limit, and the holder of A waits for B
 *   NEVER_AWAITED             fork does not set awaited, so it waits again for a holder that it has awaited
 *   AWAITS_ONE                after it has waited for one lock, fork goes on without every lock that is taken
 */

#define ROUNDS 2
#define CONTENDED 1
#define FORKING 2
#define NESTED 4
#define AWAITED 8
#define MINE (16 * (_pid + 1))
#define HOLDER(w) ((w) & 240)
#define LOCKS 3
#define THREADS 3
#ifdef AWAITS_ONE
#define THIRD_LOCK
#endif

byte word[LOCKS];
bool asleep[THREADS * LOCKS]; /* index: thread * LOCKS + lock */
bool has_limit;     /* the forking thread sleeps for a limited time */
byte inside[LOCKS];
byte done;
bool waited; /* has_waited_for_section of the forking thread */

/* For the checks only: how often each lock was taken, and the value of `taken` when the forking thread last waited. */
byte taken[LOCKS];
byte awaited[LOCKS];

#define HOLDER_WAITS(l) (HOLDER(word[l]) != 0 && asleep[(HOLDER(word[l]) / 16 - 2) * LOCKS + 1])
/* The time is over only if nothing else can happen; with C, as soon as the holder of l sleeps on B. */
#ifdef THIRD_LOCK
#define TIME_IS_OVER(l) HOLDER_WAITS(l)
#else
#define TIME_IS_OVER(l) timeout
#endif
#define ASLEEP(l) asleep[(_pid - 1) * LOCKS + (l)]

inline come_in(l) { atomic { inside[l]++; assert(inside[l] == 1) } }
inline go_out(l) { inside[l]-- }

inline wake_one(l) {
  atomic {
    if
    :: asleep[l] -> asleep[l] = false
    :: asleep[LOCKS + l] -> asleep[LOCKS + l] = false
    :: asleep[2 * LOCKS + l] -> asleep[2 * LOCKS + l] = false
    :: else -> skip
    fi
  }
}

/* Sleeps once if the lock is taken. The kernel compares the word and puts the thread to sleep in one step. */
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
        :: may_time_out && TIME_IS_OVER(l) -> ASLEEP(l) = false; timed_out = true
        fi;
        has_limit = has_limit && !may_time_out
     :: else -> skip
     fi
  fi
}

inline take(l, flags) {
  got = false;
  atomic { if :: word[l] == 0 -> word[l] = MINE | flags; taken[l]++; got = true :: else -> skip fi }
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

#ifdef AWAITS_ONE
#define GOES_ON_AT_ONCE(l) waited
#else
#define GOES_ON_AT_ONCE(l) (waited && (word[l] & AWAITED) != 0)
#endif

/* Fork goes on without lock l, unless it is no longer held by `holder`, for which fork has waited: marks the lock of the
 * interrupted section (B) as contended, and l as awaited. */
inline give_up(l) {
  atomic { word[1] = word[1] | CONTENDED };
  waited = true;
  atomic {
    if
    :: holder != 0 && HOLDER(word[l]) == holder ->
#ifndef NEVER_AWAITED
       word[l] = word[l] | AWAITED;
#endif
       assert(awaited[l] == taken[l]) /* or it goes on without having waited for this holder */
    :: else -> over = false
    fi
  }
}

inline take_for_fork(l) {
  take(l, FORKING);
  do
  :: got || HOLDER(word[l]) == MINE -> break
  :: else ->
     holder = HOLDER(word[l]);
     if
     :: GOES_ON_AT_ONCE(l) -> over = true
     :: else ->
#ifdef NEVER_GIVES_UP
        sleep(l, false, over);
#else
        sleep(l, interrupted, over);
#endif
        if
        :: over ->
           atomic {
             if
             :: HOLDER(word[l]) == holder ->
                assert(awaited[l] != taken[l]); /* or it has waited a second time for the same holder */
                awaited[l] = taken[l]
             :: else -> skip /* the holder changed before the sleep began */
             fi
           }
        :: else -> skip
        fi
     fi;
     if
     :: over -> give_up(l)
     :: else -> skip
     fi;
     if
     :: over -> break
     :: else -> take(l, FORKING | CONTENDED)
     fi
  od;
  over = false
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

proctype user_of_c() {
  byte i = 0, seen = 0;
  bool got, over;
  do
  :: i < ROUNDS ->
     acquire(2);
     come_in(2);
     go_out(2);
     release(2);
     i++
  :: else -> break
  od;
  done++
}

/* The end of the interrupted section: the fast path frees a word without flags; otherwise the slow path. */
inline end_section(l) {
  atomic { if :: word[l] == MINE -> word[l] = 0; got = true :: else -> got = false fi };
  if
  :: got -> skip
  :: else -> release(l); waited = false
  fi
}

proctype forker() {
  byte seen = 0, holder = 0, forks = 0;
  bool got, over, interrupted;
  if
  :: interrupted = false; forks = 1
  :: interrupted = true; forks = 2;
     acquire(1);
     come_in(1)
  fi;
  do
  :: forks > 0 ->
     take_for_fork(0);
     take_for_fork(1);
#ifdef THIRD_LOCK
     take_for_fork(2);
#endif
     if
     :: !interrupted ->
        come_in(0);
        come_in(1);
#ifdef THIRD_LOCK
        come_in(2);
        go_out(2);
#endif
        /* A fork handler of another library. */
        acquire(0);
        release(0);
        acquire(1);
        release(1);
        go_out(1);
        go_out(0)
     :: else -> skip
     fi;
#ifdef THIRD_LOCK
     release_for_fork(2);
#endif
     release_for_fork(1);
     release_for_fork(0);
     forks--
  :: else -> break
  od;
  /* The handler returns. */
  if
  :: interrupted -> go_out(1); end_section(1)
  :: else -> skip
  fi;
  assert(!waited);
  done++
}

init {
  atomic {
    run user();
#ifdef THIRD_LOCK
    run user_of_c();
#else
    run user();
#endif
    run forker()
  };
  if
  :: done == THREADS -> assert(word[0] == 0 && word[1] == 0 && word[2] == 0)
  :: timeout && !has_limit -> assert(done == THREADS) /* or a thread waits for ever */
  fi
}
