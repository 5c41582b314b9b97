/* SPDX-License-Identifier: MIT
 *
 * How the background thread ends and how it is started again (thread_main and wake in src/runtime/decay.cpp),
 * explored in every interleaving by spin.
 *
 *   thread:  phase := absent; full fence;  look for memory  -> some is left: be the thread again
 *   wake:    memory is left;  full fence;  look at phase    -> absent: start the thread
 *
 * Spin explores sequentially consistent interleavings, and that is the right model here: the order that
 * matters is that of a store and a look on either side of a full fence, in every thread.
 * The thread runs on one static stack, so the next one may start only when the kernel has cleared `on_stack`,
 * some time after the thread decided to end.
 * Checked, when every thread of the program has come to an end: free memory is left only if the background
 * thread is there to give it back.
 *
 * Each of these macros takes a part away; the check must then fail (CMakeLists.txt):
 *   NO_SECOND_LOOK         the thread does not look for memory once it has stored `absent`
 *   THREAD_LOOKS_FIRST     it looks before it stores
 *   WAKE_LOOKS_FIRST       wake looks at the phase before there is memory
 *   WAKE_GIVES_UP          wake does nothing while the thread that has ended is still on its stack
 */

#define FREEING 3
#ifndef OPERATIONS
#define OPERATIONS 3
#endif

bool memory_left;
bool running;  /* phase: running or absent */
bool on_stack; /* os::wait_for_background_thread() waits for its end */
bool start;    /* clone */
byte on_it;    /* threads on the stack */
byte done;

proctype background() {
  bool left;
end:
  do
  :: atomic { start -> start = false; on_it++; assert(on_it == 1) };
  period:
    if
    :: memory_left -> memory_left = false; goto period /* a period, or several */
    :: else
    fi;
    /* Nothing to do for some periods. */
#ifdef THREAD_LOOKS_FIRST
    left = memory_left;
    running = false;
#else
    running = false;
    left = memory_left;
#endif
#ifdef NO_SECOND_LOOK
    left = false;
#endif
    if
    :: left ->
      if
      :: atomic { !running -> running = true }; goto period
      :: running /* another thread is about to start it */
      fi
    :: !left
    fi;
    on_it--;
    on_stack = false /* by the kernel */
  od
}

proctype program() {
  byte operations;
  bool absent;
  do
  :: operations < OPERATIONS ->
#ifdef WAKE_LOOKS_FIRST
    absent = !running;
    memory_left = true;
#else
    memory_left = true;
    absent = !running;
#endif
    if
    :: absent ->
#ifdef WAKE_GIVES_UP
      if
      :: on_stack -> goto out
      :: !on_stack
      fi;
#endif
      if
      :: atomic { !running -> running = true };
        /* Only who made it `running` comes here; it waits for the stack. */
        !on_stack;
        on_stack = true;
        start = true
      :: running
      fi
    :: else
    fi;
  out:
    operations++
  :: operations == OPERATIONS -> break
  od;
  done++
}

init {
  byte p;
  atomic {
    run background();
    do
    :: p < FREEING -> run program(); p++
    :: else -> break
    od
  }
  /* Nobody is under way: the program's threads have ended and no clone is due. */
  atomic {
    done == FREEING && !on_stack && !start;
    assert(!memory_left)
  }
}
