/* SPDX-License-Identifier: MIT
 *
 * The cache of one processor for one class (src/threads/processor_caches.hpp), used by two threads of that processor,
 * and emptied by a third thread that runs elsewhere, explored in every interleaving by spin.
 *
 * The word is one store: which magazine is loaded, and its top. A thread reads and writes the word in sequences, step by
 * step; only the last step stores the word. The kernel may give the processor to the other thread, or run a signal
 * handler, between any two steps; the sequence then begins anew. A thread whose sequence has missed sets the word to
 * BUSY by another sequence, and owns the bin until it stores the word again; meanwhile it may run on any processor, so
 * its steps do not need the processor. The drainer closes the bin, stops all sequences (membarrier), and takes the
 * magazine unless the bin is BUSY; it puts the objects back into the spans after it has opened the bin again.
 *
 * Memory is sequentially consistent here: threads of one processor see each other's stores in order, and stop_all() is a
 * fence of all threads.
 *
 * Checked at every step: an object that a thread gets, or that goes back to the spans, was free and not in use. At the
 * end: no object is lost.
 *
 * Each of these macros takes a part of the protocol away; the check must then fail (CMakeLists.txt):
 *   NO_RESTART        a sequence goes on after another thread has had the processor (Linux 6.19 for aarch64)
 *   NO_CLOSE          the drainer does not close the bin
 *   NO_STOP           the drainer does not stop the sequences
 *   DRAINS_BUSY       the drainer takes the magazine of a bin that has an owner
 *   SHARES_BUSY       a thread that finds BUSY behaves as the owner of a bin without a magazine
 *   STORES_OVER_BUSY  a thread that finds BUSY stores it once more: the owner may have stored the word in between
 *   STORES_EARLY      a push stores the word before the slot
 */

#ifndef OPERATIONS
#define OPERATIONS 3
#endif
#ifndef DRAINS
#define DRAINS 2
#endif
#define SLOTS 2
#define OBJECTS 3 /* numbered from 1 */
#define MAGAZINES 3

#define NONE 0
#define BUSY 9

#define BIN 0
#define LIVE 1
#define SPAN 2
byte where[OBJECTS + 1];

byte loaded = NONE; /* the word: magazine or NONE or BUSY, and top */
byte top;
bool opened = true;
byte slot[MAGAZINES * SLOTS + SLOTS + 1];
#define AT(m, i) slot[(m) * SLOTS + (i)]
bool used[MAGAZINES + 1];

byte running; /* the thread that has the processor */
bool in_sequence[2];
bool interrupted[2];
byte done;

#ifdef NO_RESTART
#define RESTART false
#else
#define RESTART interrupted[id]
#endif
/* A step of a sequence that begins at `label`. */
#define STEP(label, statements)                                                                                    \
  atomic {                                                                                                         \
    running == id;                                                                                                 \
    if                                                                                                             \
    :: RESTART -> interrupted[id] = false; goto label                                                              \
    :: else -> statements                                                                                          \
    fi                                                                                                             \
  }
#define ENTER in_sequence[id] = true; interrupted[id] = false
#define LEAVE in_sequence[id] = false

inline free_magazine(m) {
  atomic {
    if
    :: !used[1] -> m = 1
    :: used[1] && !used[2] -> m = 2
    :: else -> assert(!used[3]); m = 3
    fi;
    used[m] = true
  }
}
/* Takes an object from the spans; 0: there is none. */
inline from_spans(o, state) {
  atomic {
    if
    :: where[1] == SPAN -> o = 1
    :: where[1] != SPAN && where[2] == SPAN -> o = 2
    :: where[1] != SPAN && where[2] != SPAN && where[3] == SPAN -> o = 3
    :: else -> o = 0
    fi;
    if
    :: o != 0 -> where[o] = state
    :: else -> skip
    fi
  }
}
inline to_spans(o) {
  atomic { assert(where[o] == BIN); where[o] = SPAN }
}

proctype thread(byte id) {
  byte n = 0, mine = 0, m = 0, t = 0, o = 0;
  bool giving = false;
  do
  :: n == OPERATIONS -> break
  :: n < OPERATIONS ->
     n++;
     giving = (mine != 0);
hit:
     STEP(hit, ENTER);
     STEP(hit, m = loaded; t = top; if :: opened -> skip :: else -> LEAVE; goto miss fi);
     if
     :: m == NONE || m == BUSY || (giving && t == SLOTS) || (!giving && t == 0) -> LEAVE; goto miss
     :: else -> skip
     fi;
     if
     :: giving ->
#ifdef STORES_EARLY
        STEP(hit, loaded = m; top = t + 1; where[mine] = BIN; o = mine; mine = 0);
        atomic { running == id; AT(m, t + 1) = o; LEAVE };
#else
        STEP(hit, AT(m, t + 1) = mine);
        STEP(hit, loaded = m; top = t + 1; where[mine] = BIN; mine = 0; LEAVE);
#endif
     :: else ->
        STEP(hit, o = AT(m, t));
        STEP(hit, loaded = m; top = t - 1; assert(where[o] == BIN); where[o] = LIVE; mine = o; LEAVE);
     fi;
     goto next;
miss:
     STEP(miss, ENTER);
     STEP(miss, m = loaded; t = top; if :: opened -> skip :: else -> LEAVE; goto uncached fi);
#if !defined(STORES_OVER_BUSY) && !defined(SHARES_BUSY)
     STEP(miss, if :: m == BUSY -> LEAVE; goto uncached :: else -> skip fi);
#endif
     STEP(miss, loaded = BUSY; LEAVE);
     if
#ifdef SHARES_BUSY
     :: m == BUSY -> m = NONE
#else
     :: m == BUSY -> goto uncached
#endif
     :: else -> skip
     fi;
     /* The owner: from here on it may run anywhere. */
     if
     :: m == NONE -> free_magazine(m); t = 0
     :: else -> skip
     fi;
     if
     :: giving ->
        do
        :: t == SLOTS || (t > 0 && o == 99) -> to_spans(AT(m, t)); t--; o = 99
        :: else -> break
        od;
        atomic { t++; AT(m, t) = mine; where[mine] = BIN; mine = 0 }
     :: !giving && t == 0 ->
        from_spans(o, BIN);
        if
        :: o != 0 -> t++; AT(m, t) = o
        :: else -> skip
        fi
     :: else -> skip
     fi;
     if
     :: !giving && t > 0 ->
        atomic { o = AT(m, t); assert(where[o] == BIN); where[o] = LIVE; mine = o; t-- }
     :: else -> skip
     fi;
     atomic { loaded = m; top = t };
     goto next;
uncached:
     if
     :: giving -> atomic { where[mine] = SPAN; mine = 0 }
     :: else -> from_spans(mine, LIVE)
     fi;
next:
     m = 0; t = 0; o = 0
  od;
  giving = false;
  done++
}

proctype kernel() {
  do
  :: atomic {
       done < 3 -> interrupted[running] = in_sequence[running];
       if
       :: running = 1 - running
       :: skip /* a signal */
       fi
     }
  :: done == 3 -> break
  od
}

proctype drainer() {
  byte n = 0, m = 0, t = 0;
  do
  :: n == DRAINS -> break
  :: n < DRAINS ->
     n++;
#ifndef NO_CLOSE
     opened = false;
#endif
#ifndef NO_STOP
     atomic { interrupted[0] = in_sequence[0]; interrupted[1] = in_sequence[1] };
#endif
     m = loaded;
     if
     :: m == NONE -> skip
#ifdef DRAINS_BUSY
     :: m == BUSY -> loaded = NONE; m = NONE
#else
     :: m == BUSY -> m = NONE
#endif
     :: else -> t = top; loaded = NONE; top = 0
     fi;
     opened = true;
     if
     :: m != NONE ->
        do
        :: t > 0 -> to_spans(AT(m, t)); t--
        :: else -> break
        od;
        used[m] = false
     :: else -> skip
     fi;
     m = 0
  od;
  done++
}

proctype at_end() {
  byte o = 1, i = 1;
  bool found = false;
  done == 3;
  atomic {
    assert(loaded != BUSY);
    do
    :: o <= OBJECTS ->
       found = (where[o] != BIN);
       i = 1;
       do
       :: loaded != NONE && i <= top -> found = found || (AT(loaded, i) == o); i++
       :: else -> break
       od;
       assert(found);
       o++
    :: else -> break
    od
  }
}

init {
  atomic {
    where[1] = BIN; where[2] = SPAN; where[3] = SPAN;
    used[1] = true; AT(1, 1) = 1; loaded = 1; top = 1;
    run thread(0);
    run thread(1);
    run kernel();
    run drainer();
    run at_end()
  }
}
