/* SPDX-License-Identifier: MIT
 *
 * How the background thread (the taker) empties the loaded magazine of a sleeping thread (the owner), which may wake at
 * any moment (src/thread/thread_cache_idle.cpp), explored in every interleaving by spin.
 *
 * The owner pops and pushes without a fence: its stores wait in a store buffer, in program order, and its loads see the
 * buffer first. The taker's fence (membarrier) drains that buffer. A pop has two steps: load the slot below top; store
 * top. So has a push: store the slot; store top. If a pop finds a null, the owner takes the slow path: it sets busy,
 * closes the holes unless the cache is claimed, and takes an object from the spans.
 *
 * With GUARDED, a pop also sets busy and then reads claimed, and the taker also takes the topmost object.
 *
 * Checked at every step: an object that the owner reads, or that the taker gives to the spans, is in the magazine and
 * not in use. At the end: no object is lost.
 *
 * Each of these macros takes a part of the protocol away; the check must then fail (CMakeLists.txt):
 *   NO_CLAIM_FENCE  no fence between the taker's claim and its load of busy
 *   NO_FENCE        no fence between taking the objects and the load of top
 *   TAKES_TOP       the taker takes the topmost object although pops are not guarded
 *   IGNORES_TOP     the taker does not check how far the owner's top has fallen
 *   IGNORES_SLOTS   the taker does not check whether the owner has pushed into a slot that it has emptied
 *   NO_PUT_BACK     an object that the owner may be about to pop, or has just pushed, is not put back
 *   NO_BUSY         the taker does not load busy
 */

#ifndef OPERATIONS
#define OPERATIONS 5
#endif
#ifndef TAKES
#define TAKES 2
#endif
#define SLOTS 3
#define OBJECTS 3 /* numbered from 1; 0 is null */

#define TOP 0 /* addresses in the store buffer; 1 .. SLOTS are the slots */
#define BUSY 4

#define BIN 0
#define LIVE 1
#define SPAN 2
byte where[OBJECTS + 1];

byte slot[SLOTS + 1]; /* slot[0] is the sentinel */
byte top_seen;        /* top as others see it */
bool busy_seen;
bool claimed;
byte pending[SLOTS + 1]; /* number of stores to the slot that wait in the buffer */
byte newest[SLOTS + 1];  /* the value of the last one */
chan buffer = [4] of { byte, byte };
byte at, value; /* address and value of the store that leaves the buffer */
byte done;

inline leave_buffer() {
  buffer?at, value;
  if
  :: at == TOP -> top_seen = value
  :: at == BUSY -> busy_seen = value
  :: else -> slot[at] = value; pending[at]--
  fi;
  at = 0; value = 0
}
inline store(address, what) {
  atomic {
    buffer!address, what;
    if
    :: address != TOP && address != BUSY -> pending[address]++; newest[address] = what
    :: else -> skip
    fi
  }
}
inline load(address, into) {
  if
  :: pending[address] != 0 -> into = newest[address]
  :: else -> into = slot[address]
  fi
}
inline fence() {
  atomic {
    do
    :: nempty(buffer) -> leave_buffer()
    :: empty(buffer) -> break
    od
  }
}

inline take_from_spans() {
  atomic {
    if
    :: where[1] == SPAN -> where[1] = LIVE
    :: where[1] != SPAN && where[2] == SPAN -> where[2] = LIVE
    :: where[1] != SPAN && where[2] != SPAN && where[3] == SPAN -> where[3] = LIVE
    :: else -> skip
    fi
  }
}

inline close_holes() {
  i = 1;
  kept = 0;
  do
  :: i <= top ->
     load(i, o);
     if
     :: o != 0 ->
        kept++;
        if
        :: kept != i -> store(kept, o)
        :: else -> skip
        fi
     :: else -> skip
     fi;
     i++
  :: else -> break
  od;
  top = kept;
  store(TOP, top);
  i = 0; kept = 0; o = 0
}

inline slow_path() {
  store(BUSY, 1);
  if
  :: claimed -> skip
  :: else -> close_holes()
  fi;
  store(BUSY, 0);
  take_from_spans()
}

inline read_top_slot() {
  atomic {
    load(top, o);
    if
    :: o != 0 -> assert(where[o] == BIN); where[o] = LIVE
    :: else -> skip
    fi
  }
}

inline pop() {
#ifdef GUARDED
  store(BUSY, 1);
  if
  :: claimed -> store(BUSY, 0); take_from_spans()
  :: else ->
     read_top_slot();
     if
     :: o != 0 -> top--; store(TOP, top)
     :: else -> skip
     fi;
     store(BUSY, 0)
  fi;
#else
  read_top_slot();
  if
  :: o != 0 -> top--; store(TOP, top)
  :: else -> slow_path()
  fi;
#endif
  o = 0
}

inline push(object) {
  atomic { where[object] = BIN; store(top + 1, object) };
  top++;
  store(TOP, top)
}

proctype owner() {
  byte n = 0, o = 0, top = OBJECTS, i = 0, kept = 0;
  do
  :: n < OPERATIONS ->
     if
     :: pop()
     :: where[1] == LIVE && top < SLOTS -> push(1)
     :: where[2] == LIVE && top < SLOTS -> push(2)
     :: where[3] == LIVE && top < SLOTS -> push(3)
     :: where[1] == LIVE && top == SLOTS -> slow_path()
     fi;
     n++
  :: else -> break
  od;
  done++
}

inline give_to_spans(object) {
  atomic {
    assert(where[object] == BIN);
    where[object] = SPAN
  }
}

inline put_back() {
#ifndef NO_PUT_BACK
  atomic {
    if
    :: slot[i] == 0 -> slot[i] = o
    :: else -> skip
    fi
  }
#else
  skip
#endif
}

proctype taker() {
  byte n = 0, i = 0, top = 0, end = 0, o = 0;
  byte taken[SLOTS + 1];
  do
  :: n < TAKES ->
     claimed = true;
#ifndef NO_CLAIM_FENCE
     fence();
#endif
     if
#ifndef NO_BUSY
     :: busy_seen -> skip
#endif
     :: else ->
        end = top_seen;
#if !defined(GUARDED) && !defined(TAKES_TOP)
        if
        :: end > 0 -> end--
        :: else -> skip
        fi;
#endif
        i = 1;
        do
        :: i <= end -> atomic { taken[i] = slot[i]; slot[i] = 0; i++ }
        :: else -> break
        od;
#ifndef NO_FENCE
        fence();
#endif
        top = top_seen;
        i = 1;
        do
        :: i <= end ->
           o = taken[i];
           if
#ifndef IGNORES_SLOTS
           :: slot[i] != 0 -> skip
#endif
#ifndef IGNORES_TOP
           :: i > top -> put_back()
#endif
#if !defined(GUARDED) && !defined(TAKES_TOP)
           :: i == top -> put_back()
#endif
           :: else ->
              if
              :: o != 0 -> give_to_spans(o)
              :: else -> skip
              fi
           fi;
           taken[i] = 0;
           i++
        :: else -> break
        od
     fi;
     claimed = false;
     n++
  :: else -> break
  od;
  i = 0; top = 0; end = 0; o = 0;
  done++
}

proctype drain() {
  do
  :: atomic { nempty(buffer) -> leave_buffer() }
  :: atomic {
       done == 2 && empty(buffer) ->
       /* No object is lost: an object of the magazine is in a slot below top. */
       byte o = 1, i = 1;
       bool found = false;
       do
       :: o <= OBJECTS ->
          found = (where[o] != BIN);
          i = 1;
          do
          :: i <= top_seen -> found = found || (slot[i] == o); i++
          :: else -> break
          od;
          assert(found);
          o++
       :: else -> break
       od;
       break
     }
  od
}

init {
  atomic {
    slot[1] = 1; slot[2] = 2; slot[3] = 3;
    top_seen = OBJECTS;
    run owner();
    run taker();
    run drain()
  }
}
