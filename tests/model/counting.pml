/* SPDX-License-Identifier: MIT
 *
 * How the central tier counts the free objects of a span (src/central/central.hpp), explored in every
 * interleaving by spin.
 *
 *   flush:   each object's byte := free, without a lock;  then, under the lock, free_objects += their number
 *   refill:  under the lock: takes free bytes of a listed span, free_objects -= their number
 *   a span with no free object by its count is in no list, one with all free is spare, others are partial;
 *   release_spares: under the lock takes a spare span out; then its bytes go, and it may be made anew.
 *
 * Spin explores sequentially consistent interleavings, and that is the right model here: bytes are stored by
 * release and read by acquire, each byte alone, and everything else is guarded by the class's lock. Bytes are
 * read and written one by one, never in one step with anything else; a refill may see a byte that is free but
 * not counted yet.
 *
 * Threads take objects, give any two live ones back at once, and give spare spans to the page heap.
 * Checked at every step:
 *   no object is handed out twice;
 *   the count of a span is never above its free bytes, so who finds a span in a list finds an object in it;
 *   nobody touches a span that has been given back;
 * and when all have come to an end:
 *   the count of each span is that of its free bytes, and it is in the list of that count: no free object is
 *   out of reach for ever, and no empty span is lost.
 *
 * Each of these macros takes a part of the protocol away; the check must then fail (CMakeLists.txt):
 *   COUNT_FIRST      flush counts the objects before their bytes are free
 *   NO_LOCK          flush counts without the lock
 *   BYTES_DECIDE     a span is spare when its bytes are all free, whatever its count is
 *   NO_MOVE          flush counts, and leaves the span in the list that it was in
 *   TAKES_UNCOUNTED  a refill does not count what it takes
 */

#define SPANS 2
#define OBJECTS 2 /* per span */
#define THREADS 3
#define NONE 255

/* What each thread does, in any order and mixture: one takes, one gives, one gives and releases, three times
 * each. MIXED: two take and give, twice each, so that the number of states stays within reach. */
#define TAKES 1
#define GIVES 2
#define RELEASES 4
#ifdef MIXED
#define OPERATIONS 2 /* per thread */
#define FIRST (TAKES | GIVES)
#define SECOND (TAKES | GIVES)
#else
#define OPERATIONS 3
#define FIRST TAKES
#define SECOND GIVES
#endif
#define THIRD (GIVES | RELEASES)

mtype = {no_list, partial, spare, gone};

mtype in_list[SPANS];
short count[SPANS];
bool is_free[4]; /* SPANS * OBJECTS: the objects' bytes */
bool live[4];    /* handed out, not freed yet */
bool lock;
byte done;

#define acquire_lock atomic { !lock -> lock = true }
#define release_lock lock = false
#define free_bytes(s) (is_free[(s) * OBJECTS] + is_free[(s) * OBJECTS + 1])

/* object_depot::count, under the lock */
inline move(s) {
  if
#ifdef BYTES_DECIDE
  :: free_bytes(s) == OBJECTS -> in_list[s] = spare
  :: free_bytes(s) != OBJECTS && count[s] <= 0 -> in_list[s] = no_list
  :: free_bytes(s) != OBJECTS && count[s] > 0 -> in_list[s] = partial
#else
  :: count[s] == OBJECTS -> in_list[s] = spare
  :: count[s] <= 0 -> in_list[s] = no_list
  :: count[s] > 0 && count[s] != OBJECTS -> in_list[s] = partial
#endif
  fi
}

/* make_span, by one thread for itself; then it is counted under the lock like any other. */
inline add_span() {
  s = NONE;
  if
  :: atomic { in_list[0] == gone -> in_list[0] = no_list; s = 0 }
  :: atomic { in_list[0] != gone && in_list[1] == gone -> in_list[1] = no_list; s = 1 }
  :: in_list[0] != gone && in_list[1] != gone
  fi;
  if
  :: s != NONE ->
    atomic { is_free[s * OBJECTS] = true; is_free[s * OBJECTS + 1] = true; count[s] = 0 };
    acquire_lock;
    atomic { count[s] = OBJECTS; in_list[s] = spare };
    release_lock
  :: else
  fi
}

/* One object, of a partial span before a spare one. */
inline take() {
  do
  :: true ->
    got = NONE;
    acquire_lock;
    if
    :: in_list[0] == partial -> s = 0
    :: in_list[1] == partial -> s = 1
    :: in_list[0] != partial && in_list[1] != partial ->
      if
      :: in_list[0] == spare -> s = 0
      :: in_list[1] == spare -> s = 1
      :: in_list[0] != spare && in_list[1] != spare -> s = NONE
      fi
    fi;
    if
    :: s != NONE ->
      /* find_free */
      if
      :: is_free[s * OBJECTS] -> got = s * OBJECTS
      :: else ->
        if
        :: is_free[s * OBJECTS + 1] -> got = s * OBJECTS + 1
        :: else
        fi
      fi;
      assert(got != NONE);
      is_free[got] = false;
      atomic {
        assert(!live[got]);
#ifndef TAKES_UNCOUNTED
        count[s]--;
#endif
        move(s)
      }
    :: else
    fi;
    release_lock;
    if
    :: got != NONE -> live[got] = true; break
    :: else -> add_span()
    fi;
    if
    :: got == NONE && s == NONE -> break /* no memory */
    :: else
    fi
  od
}

inline pick(o) {
  if
  :: atomic { live[0] -> live[0] = false; o = 0 }
  :: atomic { live[1] -> live[1] = false; o = 1 }
  :: atomic { live[2] -> live[2] = false; o = 2 }
  :: atomic { live[3] -> live[3] = false; o = 3 }
  :: o = NONE
  fi
}

inline free_byte(o) {
  if
  :: o != NONE ->
    assert(in_list[o / OBJECTS] != gone && !is_free[o]);
    is_free[o] = true
  :: else
  fi
}

inline count_span(o, n) {
  if
  :: o != NONE ->
    s = o / OBJECTS;
    assert(in_list[s] != gone);
#ifdef NO_LOCK
    seen = count[s];
    count[s] = seen + n;
    atomic { move(s) }
#else
    atomic {
      count[s] = count[s] + n;
#ifndef NO_MOVE
      move(s)
#endif
    }
#endif
  :: else
  fi
}

inline count_freed() {
#ifndef NO_LOCK
  acquire_lock;
#endif
  if
  :: got != NONE && other != NONE && got / OBJECTS == other / OBJECTS -> count_span(got, 2)
  :: else -> count_span(got, 1); count_span(other, 1)
  fi;
#ifndef NO_LOCK
  release_lock
#endif
}

inline give() {
  pick(got);
  pick(other);
#ifdef COUNT_FIRST
  count_freed();
  free_byte(got);
  free_byte(other)
#else
  free_byte(got);
  free_byte(other);
  count_freed()
#endif
}

inline release_spares() {
  s = NONE;
  acquire_lock;
  if
  :: in_list[0] == spare -> in_list[0] = no_list; s = 0
  :: in_list[1] == spare -> in_list[1] = no_list; s = 1
  :: else
  fi;
  release_lock;
  if
  :: s != NONE ->
    assert(free_bytes(s) == OBJECTS);
    atomic { in_list[s] = gone; count[s] = 0; is_free[s * OBJECTS] = false; is_free[s * OBJECTS + 1] = false }
  :: else
  fi
}

proctype worker(byte role) {
  byte operations;
  byte got;
  byte other;
  byte s;
#ifdef NO_LOCK
  short seen;
#endif
  do
  :: operations < OPERATIONS ->
    if
    :: role & TAKES -> take()
    :: role & GIVES -> give()
    :: role & RELEASES -> release_spares()
    fi;
    atomic { operations++; got = 0; other = 0; s = 0 }
  :: operations == OPERATIONS -> break
  od;
  done++
}

/* Span 0 has one object free and one with a thread, span 1 none free. */
init {
  byte i;
  atomic {
    in_list[0] = partial; count[0] = 1; is_free[0] = true; live[1] = true;
    in_list[1] = no_list; live[2] = true; live[3] = true;
    run worker(FIRST);
    run worker(SECOND);
    run worker(THIRD)
  }
  done == THREADS;
  atomic {
    do
    :: i < SPANS ->
      if
      :: in_list[i] != gone ->
        assert(count[i] == free_bytes(i));
        assert((in_list[i] == spare) == (count[i] == OBJECTS));
        assert((in_list[i] == no_list) == (count[i] == 0))
      :: else
      fi;
      i++
    :: else -> break
    od
  }
}
