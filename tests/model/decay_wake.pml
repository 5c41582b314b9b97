/* SPDX-License-Identifier: MIT
 *
 * How the background thread ends, how it is started again and how a hold keeps it away (background_thread_body, wake in
 * src/runtime/decay.cpp; src/os/thread.cpp), explored in every interleaving by spin.
 *
 *   thread:  state := leaving; full fence;  look for memory   -> some is left: leaving -> running
 *   wake:    memory is left;   full fence;  look at the state -> leaving: wait for none; none: start the thread
 *   hold:    a hold more;      full fence;  look at the state -> not none: wait for none
 *   start:   none -> running;  full fence;  look for holds    -> some: running -> none
 * Whoever does without the thread because of a hold leaves word (start_after_hold), and looks for holds once more.
 *
 * Spin explores sequentially consistent interleavings, and that is the right model here: the order that
 * matters is that of a store and a look on either side of a full fence, in every thread.
 * The kernel stores `none` when the thread is off its stack. Checked: two threads are never on the stack; none is there
 * between a hold and its release; and when every thread of the program has come to an end, free memory is left only if the
 * background thread is there to give it back.
 *
 * Each of these macros takes a part away; the check must then fail (CMakeLists.txt):
 *   NO_SECOND_LOOK         the thread does not look for memory once it has stored `leaving`
 *   THREAD_LOOKS_FIRST     it looks before it stores
 *   WAKE_LOOKS_FIRST       wake looks at the state before there is memory
 *   WAKE_GIVES_UP          wake does nothing while the thread is leaving
 *   START_IGNORES_HOLDS    who starts the thread does not look for holds once the state is `running`
 *   START_TRIES_ONCE       and, where it gives way to a hold, not for its release once more
 *   RELEASE_STARTS_NONE    the release of a hold starts no thread
 *   THREAD_LEAVES_NO_WORD  a thread that ends because of a hold does not say that there was work
 */

#define FREEING 2
#ifndef OPERATIONS
#define OPERATIONS 2
#endif

mtype = { none, running, leaving, wanted };
mtype state = none;
bool memory_left;
bool start_after_hold;
bool start; /* clone */
byte holds;
byte on_it; /* threads on the stack */
byte done;

proctype background() {
  bool left;
end:
  do
  :: atomic { start -> start = false; on_it++; assert(on_it == 1) };
  period:
    if
    :: holds == 0 && memory_left -> memory_left = false; goto period /* a period, or several */
    :: else
    fi;
    /* Nothing to do for some periods, or a hold. */
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

/* A call that changes rights. */
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
  /* Nobody is under way: the program's threads have ended and no clone is due. */
  atomic {
    done == FREEING + 1 && state == none && !start;
    assert(!memory_left)
  }
}
