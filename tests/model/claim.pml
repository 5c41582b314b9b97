/* SPDX-License-Identifier: MIT
 *
 * How other threads empty a thread's bin of a recycler while that thread may use the bin again at any moment (enter()
 * and leave() in include/tarn/detail/recycler_bin.hpp, with_claimed() in src/recycler/recycler_registry.cpp, the end of
 * threads in src/recycler/recycler_front.cpp), explored in every interleaving by spin.
 *
 *   owner:    busy = 1; claimed?  no: pop or push; busy = 0      yes: busy = 0; takes from or gives to the recycler's
 *             list instead, under the lock
 *   claimer:  lock; n = ++claims; claimed = n; unlock; membarrier; lock; claimed still n, and busy == 0?
 *             yes: empty the bin into the list; claimed = 0      no: claimed = 0 if it is still n; unlock
 *   thread's end (by the owner): lock; empty the bin into the list; unlink it; unlock
 *
 * The owner executes no fence: its store of `busy` may stay in the store buffer while it loads `claimed`. The model has
 * that buffer: `busy_seen` is the value that others see. It becomes `busy` at any later moment (the process `drain`),
 * at the latest by the claimer's membarrier(). The owner's work in the bin takes several steps (read top, read the
 * entry, write top), so that the model finds a claimer in between. The owner's stores become visible in program order;
 * so busy = 0 publishes the bin's content, and the claimer's load of `busy` acquires it.
 *
 * One owner makes OPERATIONS pops or pushes; two claimers empty its bin, each OPERATIONS times.
 * Checked at every step:
 *   at most one thread is in the bin;
 *   no object is used by two threads, or handed out while it is somewhere else;
 * and at the end: all objects are in the list, each once.
 *
 * Each of these macros takes a part of the protocol away; the check must then fail (CMakeLists.txt):
 *   NO_MEMBARRIER   the claimer does not wait for the store buffers
 *   LOOKS_FIRST     the owner loads claimed before it stores busy
 *   NO_BUSY         the claimer does not load busy
 *   NO_NUMBER       a claimer takes another one's claim for its own, and ends it
 */

#define OPERATIONS 3
#define OBJECTS 3
#define CLAIMERS 2 /* as init starts */

/* Where an object is. */
#define BIN 0
#define LIST 1
#define LIVE 2
byte where[OBJECTS];

bool busy;       /* as the owner has stored it */
bool busy_seen;  /* as other threads see it */
byte claimed;
byte claims;
bool lock;
byte inside;     /* number of threads in the bin */
byte top;        /* objects in the bin: stack[0 .. top) */
byte stack[OBJECTS + 1];
bool linked = true;
byte done;

inline acquire() { atomic { !lock -> lock = true } }
inline release() { lock = false }

inline come_in() { atomic { inside++; assert(inside == 1) } }
inline go_out() { inside-- }

/* Under the lock, while no other thread is in the bin. */
inline empty_bin() {
  do
  :: top > 0 ->
     top = top - 1;
     assert(where[stack[top]] == BIN);
     where[stack[top]] = LIST
  :: else -> break
  od
}

/* Called by each of the three processes at its end; the last one checks that nothing is lost. */
inline finish() {
  atomic {
    done++;
    if
    :: done == CLAIMERS + 1 ->
       assert(top == 0 && inside == 0);
       assert(where[0] == LIST && where[1] == LIST && where[2] == LIST)
    :: else -> skip
    fi
  }
}

proctype owner() {
  byte i = 0, mine = 255, t = 0;
  bool may = false;
  do
  :: i < OPERATIONS ->
#ifdef LOOKS_FIRST
     may = (claimed == 0);
     busy = true;
#else
     busy = true;      /* in the store buffer */
     may = (claimed == 0);
#endif
     if
     :: may ->
        come_in();
        t = top;
        if
        :: mine == 255 && t > 0 ->
           mine = stack[t - 1];
           assert(where[mine] == BIN);
           top = t - 1;
           where[mine] = LIVE
        :: mine != 255 ->
           assert(where[mine] == LIVE);
           stack[t] = mine;
           where[mine] = BIN;
           top = t + 1;
           mine = 255
        :: else -> skip
        fi;
        go_out()
     :: else -> skip
     fi;
     /* Stores become visible in program order: busy = 1 before busy = 0. */
     atomic { busy = false; busy_seen = false };
     if
     :: !may ->
        /* Uses the list, under the lock. */
        acquire();
        if
        :: mine == 255 && where[0] == LIST -> mine = 0; where[0] = LIVE
        :: mine == 255 && where[0] != LIST && where[1] == LIST -> mine = 1; where[1] = LIVE
        :: mine != 255 -> where[mine] = LIST; mine = 255
        :: else -> skip
        fi;
        release()
     :: else -> skip
     fi;
     i++
  :: else -> break
  od;
  /* The thread ends. */
  acquire();
  if
  :: mine != 255 -> where[mine] = LIST; mine = 255
  :: else -> skip
  fi;
  come_in();
  empty_bin();
  go_out();
  linked = false;
  release();
  finish()
}

/* The store buffer drains at any time. */
proctype drain() {
  do
  :: atomic { busy && !busy_seen -> busy_seen = true }
  :: done == CLAIMERS + 1 -> break
  od
}

proctype claimer() {
  byte i = 0, n = 0;
  do
  :: i < OPERATIONS ->
     acquire();
     if
     :: linked ->
        claims++;
        n = claims;
        claimed = n;
        release();
#ifndef NO_MEMBARRIER
        atomic { busy_seen = busy };
#endif
        acquire();
        if
#ifdef NO_NUMBER
        :: linked ->
#else
        :: linked && claimed == n ->
#endif
           if
#ifdef NO_BUSY
           :: true ->
#else
           :: !busy_seen ->
#endif
              come_in();
              empty_bin();
              go_out();
              claimed = 0
#ifndef NO_BUSY
           :: busy_seen -> claimed = 0
#endif
           fi
        :: else -> skip
        fi;
        release()
     :: else -> release()
     fi;
     i++
  :: else -> break
  od;
  finish()
}

init {
  atomic {
    stack[0] = 0; stack[1] = 1; top = 2;
    where[0] = BIN; where[1] = BIN; where[2] = LIST;
    run owner();
    run drain();
    run claimer();
    run claimer()
  }
}
