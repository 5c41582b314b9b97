/* SPDX-License-Identifier: MIT
 *
 * How the background thread ends, how it is started again and how a hold keeps it away (background_thread_body, wake in
 * src/runtime/decay.cpp; src/os/thread.cpp), explored in every interleaving by spin.
 *
 *   thread:  state := leaving;       full fence;  any free memory?  yes: leaving -> running
 *   wake:    memory_left := true;    full fence;  state?            leaving: wait for none; none: start the thread
 *   hold:    holds := holds + 1;     full fence;  state?            not none: wait for none
 *   start:   none -> running;        full fence;  any holds?        yes: running -> none
 * A thread that starts no background thread because of a hold sets start_after_hold, and then reads holds once more.
 *
 * Spin explores sequentially consistent interleavings, and that is the right model here: every thread has a full fence
 * between its store and its load.
 * The kernel stores `none` when the thread no longer uses its stack. Checked: two threads never use the stack at the
 * same time; no background thread exists between a hold and its release; and when the program's threads have ended,
 * free memory is left only if the background thread is there to return it.
 *
 * Each of these macros takes a part away; the check must then fail (CMakeLists.txt):
 *   NO_SECOND_LOOK         the thread does not look for memory after it has stored `leaving`
 *   THREAD_LOOKS_FIRST     the thread looks for memory before it stores `leaving`
 *   WAKE_LOOKS_FIRST       wake reads the state before it sets memory_left
 *   WAKE_GIVES_UP          wake does nothing while the thread is leaving
 *   START_IGNORES_HOLDS    start does not read holds after it has set the state to `running`
 *   START_TRIES_ONCE       start, having given way to a hold, does not try again if the hold has ended meanwhile
 *   RELEASE_STARTS_NONE    the release of a hold starts no thread
 *   THREAD_LEAVES_NO_WORD  a background thread that ends because of a hold does not set start_after_hold
 */

#define FREEING 2
#ifndef OPERATIONS
#define OPERATIONS 2
#endif

mtype = { none, running, leaving, wanted };
mtype state = none;
bool memory_left;
bool start_after_hold;
bool start; /* clone() has been called, and the thread does not run yet */
byte holds;
byte on_it; /* number of threads that use the stack */
byte done;

proctype background() {
  bool left;
end:
  do
  :: atomic { start -> start = false; on_it++; assert(on_it == 1) };
  period:
    if
    :: holds == 0 && memory_left -> memory_left = false; goto period /* one or several periods */
    :: else
    fi;
    /* There has been nothing to do for some periods, or there is a hold. */
#ifdef THREAD_LOOKS_FIRST
    left = memory_left;
    state = leaving;
#else
    state = leaving;
    left = memory_left;
#endif
#ifdef NO_SECOND_LOOK
    left = false;
#endif
    if
    :: left && holds != 0 ->
#ifndef THREAD_LEAVES_NO_WORD
      start_after_hold = true;
#endif
      if
      :: holds != 0 -> left = false
      :: else
      fi
    :: else
    fi;
    if
    :: left ->
      if
      :: atomic { state == leaving -> state = running }; goto period
      :: state == wanted /* another thread is about to start it */
      fi
    :: else
    fi;
    on_it--;
    state = none /* by the kernel */
  od
}

/* start() of thread.cpp */
inline start_thread() {
  again = true;
  do
  :: atomic { again && state == none -> state = running };
    again = false;
#ifndef START_IGNORES_HOLDS
    if
    :: holds != 0 ->
      start_after_hold = true;
      if
      :: holds != 0 ->
        state = none;
#ifndef START_TRIES_ONCE
        again = holds == 0
#endif
      :: else -> start = true
      fi
    :: else -> start = true
    fi
#else
    start = true
#endif
  :: else -> break
  od
}

proctype program() {
  byte operations;
  bool again;
  mtype seen;
  do
  :: operations < OPERATIONS ->
#ifdef WAKE_LOOKS_FIRST
    seen = state;
    memory_left = true;
#else
    memory_left = true;
#endif
    if
    :: holds != 0 ->
      start_after_hold = true;
      if
      :: holds != 0 -> goto out
      :: else
      fi
    :: else
    fi;
#ifndef WAKE_LOOKS_FIRST
    seen = state;
#endif
    if
    :: seen == leaving ->
#ifdef WAKE_GIVES_UP
      goto out;
#endif
      if
      :: atomic { state == leaving -> state = wanted }; state == none
      :: state == none
      :: state == running || state == wanted -> goto out
      fi
    :: seen == running || seen == wanted -> goto out
    :: else
    fi;
    start_thread();
  out:
    operations++
  :: operations == OPERATIONS -> break
  od;
  done++
}

/* A libc call that changes the process's rights: it holds the background thread off. */
proctype gate() {
  bool again;
  holds++;
  if
  :: state != none -> state == none
  :: state == none
  fi;
  assert(on_it == 0 && !start);
  skip; /* the call */
  assert(on_it == 0 && !start);
  holds--;
#ifndef RELEASE_STARTS_NONE
  if
  :: atomic { holds == 0 && start_after_hold -> start_after_hold = false };
    start_thread()
  :: else
  fi;
#endif
  done++
}

init {
  byte p;
  atomic {
    run background();
    run gate();
    do
    :: p < FREEING -> run program(); p++
    :: else -> break
    od
  }
  /* The program's threads have ended, and no background thread runs or starts. */
  atomic {
    done == FREEING + 1 && state == none && !start;
    assert(!memory_left)
  }
}
