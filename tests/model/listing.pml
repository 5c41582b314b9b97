/* SPDX-License-Identifier: MIT
 *
 * The listing protocol of the central tier (src/central/central.hpp), explored in every interleaving by spin.
 *
 *   flush:   byte := free;      full fence;  look at state    -> unlisted: list it
 *   holder:  state := unlisted; full fence;  look at bytes    -> any free: list it
 *
 * Spin explores sequentially consistent interleavings, and that is the right model here: the only accesses
 * whose order across threads matters are a store and a look on either side of a full fence, and full fences
 * make exactly those sequentially consistent. All else is guarded by the depot's lock. Bytes and states are
 * read and written one by one, never in one step with anything else.
 *
 * Threads take objects (refill), give any live object back (flush), and give spare spans to the page heap
 * (release_spares), which lets a span be made anew while another thread still has its address.
 * Checked, when all have come to an end and hold nothing:
 *   no span with a free object is unlisted;       (it would never be allocated from again)
 *   no span without an object in use is listed;   (it would never go back)
 * and at every step: no span is listed twice, no object is handed out twice, no array of bytes is looked for
 * in a span that has none any more.
 *
 * Each of these macros takes a part of the protocol away; the check must then fail (CMakeLists.txt):
 *   NO_RESCAN           the holder does not look at the bytes once it has let go of the span
 *   HOLDER_LOOKS_FIRST  the holder looks at the bytes before it stores the state
 *   FLUSH_LOOKS_FIRST   flush looks at the state before it stores the byte
 *   NO_CHECK_IN_LIST    list does not look at the state again under the lock
 *   NO_RETIRE           list does not look whether the span is empty once it is listed
 *   HOLDER_ARRAY_LATE   the holder reads the pointer to the bytes after it has let go of the span
 *   FLUSH_ARRAY_LATE    flush reads the pointer to the bytes after it has freed the object
 */

#define SPANS 2
#define OBJECTS 2 /* per span */
#define THREADS 3
#define NONE 255

/* What each thread does, `operations` times, in any order and mixture. Without macros: one thread takes, one
 * gives, one gives and releases spares, three times each. TWO_HOLDERS: two threads take and give, one gives and
 * releases, twice each, so that the number of states stays within reach. */
#define TAKES 1
#define GIVES 2
#define RELEASES 4
#ifdef TWO_HOLDERS
#define OPERATIONS 2
#define FIRST (TAKES | GIVES)
#define SECOND (TAKES | GIVES)
#else
#define OPERATIONS 3
#define FIRST TAKES
#define SECOND GIVES
#endif
#define THIRD (GIVES | RELEASES)

mtype = {held, unlisted, listed, spare, gone};

mtype state[SPANS];
bool in_list[SPANS];
bool has_array[SPANS];
bool is_free[4]; /* SPANS * OBJECTS: the objects' bytes */
bool live[4];    /* handed out, not freed yet */
bool lock;
byte done;

#define acquire_lock atomic { !lock -> lock = true }
#define release_lock lock = false

/* retire_if_empty: under the lock, so only frees can come in between. */
inline retire_if_empty(r) {
  acquire_lock;
  if
  :: state[r] == listed ->
    if
    :: is_free[r * OBJECTS] ->
      if
      :: is_free[r * OBJECTS + 1] ->
        d_step { assert(in_list[r]); in_list[r] = false; state[r] = spare }
      :: else
      fi
    :: else
    fi
  :: else
  fi;
  release_lock
}

inline list(l) {
  acquire_lock;
  if
#ifdef NO_CHECK_IN_LIST
  :: true ->
#else
  :: state[l] == unlisted ->
#endif
    d_step { assert(!in_list[l]); in_list[l] = true; state[l] = listed };
    release_lock;
#ifndef NO_RETIRE
    retire_if_empty(l)
#endif
  :: else -> release_lock
  fi
}

/* The holder has seen all of span h. */
inline exhausted(h) {
  array_known = has_array[h];
#ifdef HOLDER_LOOKS_FIRST
  seen = is_free[h * OBJECTS];
  seen = seen || is_free[h * OBJECTS + 1];
  state[h] = unlisted;
#else
  state[h] = unlisted;
#ifdef HOLDER_ARRAY_LATE
  array_known = has_array[h];
#endif
#ifdef NO_RESCAN
  seen = false;
#else
  assert(array_known);
  seen = is_free[h * OBJECTS];
  seen = seen || is_free[h * OBJECTS + 1];
#endif
#endif
  if
  :: seen -> list(h)
  :: else
  fi
}

/* A listed span, else a spare one, else a new one. */
inline acquire_span() {
  acquire_lock;
  if
  :: in_list[0] -> d_step { in_list[0] = false; state[0] = held; mine = 0 }
  :: in_list[1] -> d_step { in_list[1] = false; state[1] = held; mine = 1 }
  :: !in_list[0] && !in_list[1] && state[0] == spare -> d_step { state[0] = held; mine = 0 }
  :: !in_list[0] && !in_list[1] && state[1] == spare -> d_step { state[1] = held; mine = 1 }
  :: else
  fi;
  release_lock;
  if
  :: mine == NONE ->
    /* make_span: the page heap has a lock of its own */
    if
    :: atomic { state[0] == gone && !has_array[0] -> mine = 0; state[0] = held }
    :: atomic { state[1] == gone && !has_array[1] -> mine = 1; state[1] = held }
    :: else
    fi;
    if
    :: mine != NONE ->
      d_step { has_array[mine] = true; is_free[mine * OBJECTS] = true; is_free[mine * OBJECTS + 1] = true }
    :: else
    fi
  :: else
  fi;
  cursor = 0
}

inline take() {
  got = NONE;
  do
  :: got != NONE -> break
  :: got == NONE ->
    if
    :: mine == NONE -> acquire_span()
    :: else
    fi;
    if
    :: mine == NONE -> break /* no memory */
    :: else
    fi;
    /* find_free: from the cursor on */
    do
    :: cursor == OBJECTS || got != NONE -> break
    :: cursor < OBJECTS && got == NONE ->
      if
      :: is_free[mine * OBJECTS + cursor] ->
        got = mine * OBJECTS + cursor;
        is_free[got] = false;
        assert(!live[got])
      :: else
      fi;
      cursor++
    od;
    if
    :: cursor == OBJECTS ->
      h = mine;
      mine = NONE;
      exhausted(h)
    :: else
    fi
  od;
  if
  :: got != NONE -> live[got] = true
  :: else
  fi
}

inline give() {
  if
  :: atomic { live[0] -> live[0] = false; got = 0 }
  :: atomic { live[1] -> live[1] = false; got = 1 }
  :: atomic { live[2] -> live[2] = false; got = 2 }
  :: atomic { live[3] -> live[3] = false; got = 3 }
  :: !live[0] && !live[1] && !live[2] && !live[3] -> got = NONE
  fi;
  if
  :: got != NONE ->
    h = got / OBJECTS;
    assert(!is_free[got]);
    array_known = has_array[h];
#ifdef FLUSH_LOOKS_FIRST
    looked = state[h];
    is_free[got] = true;
#else
    is_free[got] = true;
#ifdef FLUSH_ARRAY_LATE
    array_known = has_array[h];
#endif
    looked = state[h];
#endif
    if
    :: looked == unlisted -> list(h)
    :: looked == listed ->
      /* are_all_free, without the lock: the bytes are there even if the span is another one by now */
      assert(array_known);
      if
      :: is_free[h * OBJECTS] ->
        if
        :: is_free[h * OBJECTS + 1] -> retire_if_empty(h)
        :: else
        fi
      :: else
      fi
    :: else
    fi
  :: else
  fi
}

inline let_go() {
  if
  :: mine != NONE ->
    h = mine;
    mine = NONE;
    state[h] = unlisted;
    list(h)
  :: else
  fi
}

inline release_spares() {
  got = NONE;
  acquire_lock;
  if
  :: state[0] == spare -> state[0] = gone; got = 0
  :: state[1] == spare -> state[1] = gone; got = 1
  :: else
  fi;
  release_lock;
  if
  :: got != NONE -> has_array[got] = false
  :: else
  fi
}

proctype worker(byte role) {
  byte mine = NONE; /* the held span */
  byte cursor;
  byte operations;
  byte got;
  byte h;
  bool seen;
  bool array_known;
  mtype looked;
  do
  :: operations < OPERATIONS ->
    if
    :: role & TAKES -> take()
    :: role & GIVES -> give()
    :: role & RELEASES -> release_spares()
    fi;
    d_step { operations++; got = 0; h = 0; seen = false; array_known = false; looked = held }
  :: operations == OPERATIONS -> break
  od;
  let_go();
  done++
}

/* Span 0 is listed: one object free, one with a thread. There is memory for one span more. */
init {
  byte s;
  atomic {
    state[0] = listed; in_list[0] = true; has_array[0] = true;
    is_free[0] = true; live[1] = true;
    state[1] = gone;
    run worker(FIRST);
    run worker(SECOND);
    run worker(THIRD)
  }
  done == THREADS;
  d_step {
    s = 0;
    do
    :: s < SPANS ->
      assert(state[s] != held);
      assert(in_list[s] == (state[s] == listed));
      if
      :: is_free[s * OBJECTS] || is_free[s * OBJECTS + 1] -> assert(state[s] != unlisted)
      :: else
      fi;
      if
      :: is_free[s * OBJECTS] && is_free[s * OBJECTS + 1] -> assert(state[s] != listed)
      :: else
      fi;
      s++
    :: else -> break
    od
  }
}
