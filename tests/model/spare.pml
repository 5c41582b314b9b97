/* SPDX-License-Identifier: MIT
 *
 * How magazines pass between threads without a lock: a cache's spare magazine (take() and put() of spare_magazine in
 * src/central/magazine_bin.hpp), and the unlocked load of a depot's full_count (src/central/central.cpp), explored in
 * every interleaving by spin.
 *
 *   take:  load the pointer; null: return;  exchange it for null; the taker owns the magazine that the exchange returns
 *   put:   by the cache's thread only, and only if the pointer is null: a store
 *   give:  load full_count without the lock; limit reached: keep the magazine;  else push it, under the lock
 *   get:   load full_count without the lock; 0: return;  else, under the lock, pop a magazine if there is one
 *
 * A taker may be late: between its load and its exchange another thread may have taken the magazine, emptied it and put
 * it into the pool of magazines, from where it may be in a cache again, this one or another, with other objects in it.
 *
 * Spin explores sequentially consistent interleavings, and that is the right model here: the release of put()
 * publishes a magazine's content, and the acquire of the exchange that takes the magazine comes before the content is
 * read. Sections under a lock (the class's, for spans and full magazines; the pool's) are one step each.
 *
 * Two threads allocate objects and free any live object, also one that the other has allocated. The second one also
 * empties its cache and takes the first one's spare magazine, as `reclaim` does. A third thread takes the spare
 * magazines of both, as decay does, and flushes full ones. Each performs three operations. A magazine holds one object:
 * it is full or empty.
 * MORE_OBJECTS: four objects instead of three, the first thread also empties its cache, and each performs two
 * operations, which limits the number of states.
 * Checked at every step:
 *   no magazine is in two places, and a thread uses only magazines that it owns;
 *   no object has two owners, or is handed out when it is not in the magazine that it comes from;
 * and at the end:
 *   every magazine is in the pool, in the depot or in a cache, and every object is live, in the span or in one of these
 *   magazines: nothing is lost;
 *   full_count is the number of full magazines. (It may exceed the limit by the number of threads that have loaded it
 *   and not yet pushed: here by one.)
 *
 * Each of these macros takes a part of the protocol away; the check must then fail (CMakeLists.txt):
 *   TAKE_BY_LOAD_AND_STORE  a taker loads the pointer and then stores null
 *   READ_BEFORE_TAKING      a taker reads the magazine's content before the exchange
 *   TAKER_PUTS_BACK         another thread empties the magazine and puts it back
 *   PUT_OVER                the thread puts a magazine without having taken the one that may be there
 *   FREED_BEFORE_FLUSHED    another thread puts the magazine into the pool before it has flushed it
 *   PUSH_WITHOUT_LOCK       a full magazine is pushed without the lock
 *   COUNT_IS_TRUSTED        a thread that has loaded a full_count above 0 pops without a check under the lock
 *   LIMIT_IS_STRICT         asserts that the depot never holds more than its limit
 */

#if defined(PUSH_WITHOUT_LOCK) || defined(LIMIT_IS_STRICT)
#define MORE_OBJECTS
#endif
#ifdef MORE_OBJECTS
#define OPERATIONS 2 /* per thread */
#define OBJECTS 4
#define may_empty_bin true
#else
#define OPERATIONS 3
#define OBJECTS 3
#define may_empty_bin (me == 1)
#endif
#define THREADS 3
#define MAGAZINES 5
#define LIMIT 1
#define NONE 255

/* Where a magazine is: in the pool, in the depot, the spare of a cache, or owned by a thread (loaded or not). */
#define POOL 0
#define DEPOT 1
#define LEFT 2  /* loaded or at hand, in the cache of a thread that has finished */
#define SPARE 3 /* + cache */
#define HAND 5  /* + thread */
byte at[MAGAZINES];
byte content[MAGAZINES]; /* the object in it, or NONE; not kept up to date while the magazine is loaded */

/* Where an object is. */
#define SPAN 0
#define MAGAZINE 1
#define LIVE 2
#define FREEING 3 /* in free() */
byte where[OBJECTS];

byte spare[2];
byte stack[MAGAZINES];
byte full_count;
byte done;

/* ---- the pool, spans and the depot ---- */

inline new_magazine(m) {
  d_step {
    m = 0;
    do
    :: m < MAGAZINES && at[m] != POOL -> m++
    :: m == MAGAZINES || at[m] == POOL -> break
    od;
    if
    :: m < MAGAZINES -> at[m] = HAND + me
    :: else -> m = NONE
    fi
  }
}

inline deallocate(m) {
  d_step { assert(at[m] == HAND + me); at[m] = POOL; content[m] = NONE; m = NONE }
}

inline flush(what) {
  d_step { assert(where[what] == MAGAZINE); where[what] = SPAN; what = NONE }
}

inline refill(what) {
  d_step {
    what = 0;
    do
    :: what < OBJECTS && where[what] != SPAN -> what++
    :: what < OBJECTS && where[what] == SPAN -> where[what] = MAGAZINE; break
    :: what == OBJECTS -> what = NONE; break
    od
  }
}

/* Called by any thread. `what` is the object in the magazine. */
inline give_back(m, what) {
#ifdef FREED_BEFORE_FLUSHED
  d_step { assert(at[m] == HAND + me); at[m] = POOL; content[m] = what };
  what = content[m];
  m = NONE;
  if
  :: what != NONE -> flush(what)
  :: else
  fi
#else
  if
  :: what != NONE -> flush(what)
  :: else
  fi;
  deallocate(m)
#endif
}

inline push_full(m, what) {
#ifdef PUSH_WITHOUT_LOCK
  count = full_count;
  d_step { assert(at[m] == HAND + me); at[m] = DEPOT; content[m] = what; stack[count] = m; m = NONE };
  d_step { full_count = count + 1; count = 0 }
#else
  d_step {
    assert(at[m] == HAND + me);
    at[m] = DEPOT;
    content[m] = what;
    stack[full_count] = m;
    full_count++;
    m = NONE;
#ifdef LIMIT_IS_STRICT
    assert(full_count <= LIMIT);
#endif
    assert(full_count <= LIMIT + 1)
  }
#endif
}

inline pop_full(m, what) {
  d_step {
    full_count--;
    m = stack[full_count];
    stack[full_count] = 0;
    assert(at[m] == DEPOT);
    at[m] = HAND + me;
    what = content[m];
    content[m] = NONE
  }
}

inline take_full(m, what) {
  if
  :: full_count != 0 ->
#ifdef COUNT_IS_TRUSTED
    assert(full_count != 0);
    pop_full(m, what)
#else
    if
    :: atomic { full_count != 0 -> pop_full(m, what) }
    :: full_count == 0
    fi
#endif
  :: full_count == 0
  fi
}

/* The cache's thread puts away an empty magazine: it keeps one at hand. */
inline discard(m) {
  if
  :: at_hand == NONE -> d_step { assert(at[m] == HAND + me); at_hand = m; m = NONE }
  :: else -> deallocate(m)
  fi
}

inline obtain(m) {
  if
  :: at_hand != NONE -> d_step { m = at_hand; at_hand = NONE }
  :: else -> new_magazine(m)
  fi
}

inline hand_over(m, what) {
  if
  :: what != NONE ->
    if
    :: full_count < LIMIT -> push_full(m, what); what = NONE
    :: full_count >= LIMIT -> flush(what); discard(m)
    fi
  :: else -> discard(m)
  fi
}

/* ---- the spare place ---- */

inline take_spare(c, m, what) {
#ifdef READ_BEFORE_TAKING
  d_step {
    m = spare[c];
    if
    :: m != NONE -> what = content[m]
    :: else
    fi
  };
#else
  m = spare[c];
#endif
  if
  :: m != NONE ->
    d_step {
#ifndef TAKE_BY_LOAD_AND_STORE
      m = spare[c];
#endif
      spare[c] = NONE;
      if
      :: m != NONE ->
        assert(at[m] == SPARE + c);
        at[m] = HAND + me;
#ifndef READ_BEFORE_TAKING
        what = content[m];
#endif
        content[m] = NONE
      :: else -> what = NONE
      fi
    }
  :: else
  fi
}

/* The magazine and the object in it are then no longer the thread's. */
inline put_spare(c, m, what) {
  d_step {
    assert(at[m] == HAND + me);
    at[m] = SPARE + c;
    content[m] = what;
    spare[c] = m;
    m = NONE;
    what = NONE
  }
}

/* ---- a thread and its cache ---- */

inline pop() {
  d_step {
    assert(at[loaded] == HAND + me && where[in_loaded] == MAGAZINE);
    where[in_loaded] = LIVE;
    in_loaded = NONE
  }
}

inline load(m, what) {
  d_step { loaded = m; in_loaded = what; m = NONE; what = NONE }
}

/* magazine_bin::get_objects, and pop */
inline allocate() {
  if
  :: in_loaded == NONE ->
    take_spare(me, mine, in_mine);
    if
    :: mine == NONE || in_mine == NONE -> take_full(other, in_other)
    :: else -> d_step { other = mine; in_other = in_mine; mine = NONE; in_mine = NONE }
    fi;
    if
    :: other != NONE ->
      if
      :: loaded != NONE ->
        put_spare(me, loaded, in_loaded);
        load(other, in_other);
        if
        :: mine != NONE -> discard(mine)
        :: else
        fi
      :: else ->
        load(other, in_other);
        if
        :: mine != NONE -> put_spare(me, mine, in_mine)
        :: else
        fi
      fi
    :: else ->
      if
      :: mine != NONE -> put_spare(me, mine, in_mine)
      :: else
      fi;
      if
      :: loaded == NONE -> obtain(loaded)
      :: else
      fi;
      if
      :: loaded != NONE -> refill(in_loaded)
      :: else /* no memory */
      fi
    fi
  :: else
  fi;
  if
  :: in_loaded != NONE -> pop()
  :: else
  fi
}

/* magazine_bin::make_room, and push */
inline release() {
  d_step {
    object = 0;
    do
    :: object < OBJECTS && where[object] != LIVE -> object++
    :: object < OBJECTS && where[object] == LIVE -> where[object] = FREEING; break
    :: object == OBJECTS -> object = NONE; break
    od
  };
  if
  :: object != NONE ->
    if
    :: loaded == NONE -> obtain(loaded)
    :: loaded != NONE && in_loaded != NONE ->
#ifndef PUT_OVER
      take_spare(me, mine, in_mine);
      if
      :: in_mine != NONE -> hand_over(mine, in_mine)
      :: else
      fi;
#endif
      if
      :: mine == NONE -> obtain(mine)
      :: else
      fi;
      if
      :: mine != NONE ->
        put_spare(me, loaded, in_loaded);
        load(mine, in_mine)
      :: else -> flush(in_loaded)
      fi
    :: else
    fi;
    d_step {
      if
      :: loaded != NONE ->
        assert(at[loaded] == HAND + me);
        where[object] = MAGAZINE;
        in_loaded = object
      :: else -> where[object] = SPAN /* flushed alone */
      fi;
      object = NONE
    }
  :: else
  fi
}

/* thread_cache::empty_bin: when the thread ends, or scavenges */
inline empty_bin() {
  if
  :: loaded != NONE -> hand_over(loaded, in_loaded)
  :: else
  fi;
  take_spare(me, mine, in_mine);
  if
  :: mine != NONE -> hand_over(mine, in_mine)
  :: else
  fi
}

/* thread_cache::take_surplus, of another thread's cache */
inline take_surplus(c) {
  take_spare(c, mine, in_mine);
  if
  :: mine != NONE ->
#ifdef TAKER_PUTS_BACK
    if
    :: in_mine != NONE -> flush(in_mine)
    :: else
    fi;
    put_spare(c, mine, in_mine)
#else
    give_back(mine, in_mine)
#endif
  :: else
  fi
}

proctype program(byte me; byte loaded; byte in_loaded) {
  byte operations;
  byte object = NONE;
  byte mine = NONE; /* a magazine that the thread owns, and the object in it */
  byte in_mine = NONE;
  byte other = NONE;
  byte in_other = NONE;
  byte at_hand = NONE;
#ifdef PUSH_WITHOUT_LOCK
  byte count;
#endif
  do
  :: operations < OPERATIONS ->
    if
    :: true -> allocate()
    :: true -> release()
    :: may_empty_bin -> empty_bin()
    :: me == 1 -> take_surplus(0)
    fi;
    operations++
  :: operations == OPERATIONS ->
    d_step {
      if
      :: loaded != NONE -> at[loaded] = LEFT; content[loaded] = in_loaded; loaded = NONE; in_loaded = NONE
      :: else
      fi;
      if
      :: at_hand != NONE -> at[at_hand] = LEFT; at_hand = NONE
      :: else
      fi;
      done++
    };
    break
  od
}

proctype decay(byte me) {
  byte operations;
  byte mine = NONE;
  byte in_mine = NONE;
  do
  :: operations < OPERATIONS ->
    if
    :: true -> take_surplus(0)
    :: true -> take_surplus(1)
    :: true -> /* flush_idle_magazines */
      take_full(mine, in_mine);
      if
      :: mine != NONE -> give_back(mine, in_mine)
      :: else
      fi
    fi;
    operations++
  :: operations == OPERATIONS -> break
  od;
  done++
}

/* At first, the first cache has a full magazine loaded and a full spare; the second one has an empty magazine loaded
 * and a full spare; one magazine is in the pool. */
init {
  byte i;
  byte stored;
  short held;
  atomic {
    at[0] = HAND; content[0] = NONE; where[0] = MAGAZINE;
    at[1] = SPARE; spare[0] = 1; content[1] = 1; where[1] = MAGAZINE;
    at[2] = HAND + 1; content[2] = NONE;
    at[3] = SPARE + 1; spare[1] = 3; content[3] = 2; where[2] = MAGAZINE;
    at[4] = POOL; content[4] = NONE;
#ifdef MORE_OBJECTS
    where[3] = LIVE;
#endif
    run program(0, 0, 0);
    run program(1, 2, NONE);
    run decay(2)
  }
  d_step {
    done == THREADS;
    do
    :: i < MAGAZINES ->
      assert(at[i] <= LEFT || (at[i] < HAND && spare[at[i] - SPARE] == i));
      if
      :: at[i] == DEPOT -> stored++
      :: else
      fi;
      if
      :: at[i] != POOL && content[i] != NONE -> assert(where[content[i]] == MAGAZINE); held++
      :: else
      fi;
      i++
    :: i == MAGAZINES -> break
    od;
    assert(stored == full_count);
    i = 0;
    do
    :: i < OBJECTS ->
      assert(where[i] != FREEING);
      if
      :: where[i] == MAGAZINE -> held--
      :: else
      fi;
      i++
    :: i == OBJECTS -> break
    od;
    assert(held == 0)
  }
}
