// SPDX-License-Identifier: MIT
// A double free is detected for every size class and wherever the first free has put the object: magazines, depot,
// span, page heap.
//
// For each place, the first and the last object there are freed again, each in a forked child that has a copy of the
// parent's heap. For the others the test repeats the check that free() makes.
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "background/decay.hpp"
#include "engine/engine.hpp"
#include "expect_abort.hpp"
#include "malloc/block.hpp"
#include "os/memory.hpp"
#include "tarn/malloc.h"

namespace tarn {

// Befriended by thread_cache.
class thread_cache_test_access {
 public:
  template <class Visit>
  static void for_each_loaded(const thread_cache& cache, unsigned c, Visit visit) {
    const thread_cache::bin& b = cache.bins_[c];
    for (void** slot = cache.loaded_[c]->bottom(); slot < b.top; ++slot) visit(*slot);
  }
  static magazine* spare(const thread_cache& cache, unsigned c) { return cache.spare_[c].look(); }
};

namespace {

using access = thread_cache_test_access;

enum class place { own_magazine, own_spare, other_cache, depot, span, unlisted_span, page_heap };
using places = std::map<place, std::vector<void*>>;

const char* const double_free = "double free";
// The line depends on what the pages are used for now.
const char* const freed_memory = "[a-z ,]*free[a-z ,]*";

template <class Visit>
void for_each_in(const magazine* m, Visit visit) {
  for (std::size_t slot = 1; m != nullptr && slot <= m->count; ++slot) visit(m->slots[slot]);
}

// The place of each object. Lost objects, which are in no place, are not in the result.
places find(unsigned c, const std::vector<void*>& objects) {
  std::map<void*, place> known;
  const auto look_into = [c, &known](thread_cache& cache) {
    const bool own = &cache == engine::local_cache;
    access::for_each_loaded(cache, c,
                            [&](void* p) { known[p] = own ? place::own_magazine : place::other_cache; });
    for_each_in(access::spare(cache, c),
                [&](void* p) { known[p] = own ? place::own_spare : place::other_cache; });
  };
  engine::registry.for_each(look_into);
  engine::registry.for_each_resting(look_into);
  for (const magazine* m = engine::central_tier.depots().at(c).full.first(); m != nullptr; m = m->next) {
    for_each_in(m, [&known](void* p) { known[p] = place::depot; });
  }
  places out;
  for (void* p : objects) {
    const page_map::entry page = engine::map.find(address_of(p));
    // The page may belong to a new span by now, even one of the same class.
    if (engine::central_tier.idle_pages().look_up(p).size_class == c) {
      out[place::unlisted_span].push_back(p);
    } else if (page.size_class() != c || address_of(p) < objects::first_of(page.owner(address_of(p))) ||
               !page.begins_object(address_of(p), class_info(c).reciprocal)) {
      out[place::page_heap].push_back(p);
    } else if (objects::is_free(page.owner(address_of(p)),
                                objects::index_of(page.owner(address_of(p)), address_of(p)))) {
      out[place::span].push_back(p);
    } else if (known.count(p) != 0) {
      out[known[p]].push_back(p);
    }
  }
  return out;
}

void release(void* p) {
  void* volatile hidden = p;
  tarn_free(hidden);
}

// A thread gets a magazine for a class only after some misses, 67 for the largest objects. Each pair makes two.
void open_class(unsigned c) {
  constexpr int pairs = 40;
  for (int i = 0; i < pairs; ++i) release(tarn_malloc(class_info(c).size));
}

bool is_seen(void* p) {
  const page_map::entry page = engine::map.find(address_of(p));
  if (const auto unlisted = engine::central_tier.idle_pages().look_up(p); unlisted.size_class != 0)
    return unlisted.fault != nullptr;
  if (page.size_class() == 0) return classify(p).large() == nullptr;
  if (address_of(p) < objects::first_of(page.owner(address_of(p)))) return true;
  const auto size_class = static_cast<unsigned>(page.size_class());
  return !page.begins_object(address_of(p), class_info(size_class).reciprocal) ||
         free_mark::is_set(engine::map, size_class, p);
}

// Expects that a second free of each of these free objects is detected. Returns the places where they are.
std::set<place> expect_all_seen(unsigned c, const std::vector<void*>& objects) {
  std::set<place> out;
  std::size_t found = 0;
  for (const auto& [where, there] : find(c, objects)) {
    const char* const text = where == place::page_heap ? freed_memory : double_free;
    for (void* p : {there.front(), there.back()}) {
      EXPECT_TARN_ABORT(release(p), text, p) << class_info(c).size << " in place " << static_cast<int>(where);
    }
    EXPECT_TRUE(std::all_of(there.begin(), there.end(), is_seen)) << class_info(c).size;
    out.insert(where);
    found += there.size();
  }
  EXPECT_EQ(found, objects.size()) << "objects of " << class_info(c).size << " are in no place";
  return out;
}

class double_free_death : public testing::Test {
 protected:
  double_free_death() {
    tarn_set_option("decay_ms", "-1");
    tarn_trim(0);
  }
  ~double_free_death() override {
    tarn_trim(0);
    tarn_set_option("decay_ms", "1000");
  }

  // More than fit into a thread's magazines and the depot.
  static std::vector<void*> allocate_many(unsigned c) {
    std::vector<void*> out(class_info(c).magazine * std::size_t{6} + 50);
    for (void*& p : out) p = tarn_malloc(class_info(c).size);
    return out;
  }
  static void release_all(const std::vector<void*>& objects) {
    for (void* p : objects) tarn_free(p);
  }
  // Moves every eighth object to the result. The caller keeps them live, so that some of the spans stay.
  static std::vector<void*> keep_some(std::vector<void*>& objects) {
    std::vector<void*> kept;
    std::vector<void*> others;
    for (std::size_t i = 0; i < objects.size(); ++i) (i % 8 == 0 ? kept : others).push_back(objects[i]);
    objects.swap(others);
    return kept;
  }
  template <class Body>
  static void for_each_class(Body body) {
    for (unsigned c = 1; c < size_classes::count; ++c) body(c);
  }
  // For each class, makes many objects, of whose spans other objects stay live. steps(objects, look) frees the objects
  // and calls look() whenever a second free must be detected. look() returns the places where the objects are at that
  // moment; places_of_freed the places of all calls.
  template <class Steps>
  static std::set<place> places_of_freed(Steps steps) {
    std::set<place> all;
    for_each_class([&steps, &all](unsigned c) {
      SCOPED_TRACE(class_info(c).size);
      auto objects = allocate_many(c);
      const auto kept = keep_some(objects);
      steps(objects, [c, &objects, &all] {
        const auto here = expect_all_seen(c, objects);
        all.insert(here.begin(), here.end());
        return here;
      });
      release_all(kept);
      tarn_trim(0);
    });
    return all;
  }
};

TEST_F(double_free_death, where_its_own_thread_has_put_it) {
  const auto all = places_of_freed([](const std::vector<void*>& objects, auto look) {
    release_all(objects);
    EXPECT_EQ(look().count(place::own_magazine), 1U);
  });
  for (const place wanted : {place::own_magazine, place::own_spare, place::depot, place::span}) {
    EXPECT_EQ(all.count(wanted), 1U) << "the test brought nothing to place " << static_cast<int>(wanted);
  }
}

TEST_F(double_free_death, in_the_cache_of_another_thread_that_lives) {
  for_each_class([](unsigned c) {
    void* const object = tarn_malloc(class_info(c).size);
    EXPECT_TARN_ABORT(
        {
          std::atomic<bool> freed{false};
          std::thread([object, c, &freed] {
            open_class(c);
            release(object);
            freed = true;
            for (;;) std::this_thread::yield();
          }).detach();
          while (!freed) std::this_thread::yield();
          const auto here = find(c, {object});
          if (here.count(place::other_cache) != 0) release(object);
        },
        double_free, object)
        << class_info(c).size;
    tarn_free(object);
  });
}

TEST_F(double_free_death, in_what_a_thread_has_left_behind) {
  const auto all = places_of_freed([](const std::vector<void*>& objects, auto look) {
    std::thread([&objects] { release_all(objects); }).join();
    look();
  });
  EXPECT_EQ(all.count(place::depot), 1U);
  EXPECT_EQ(all.count(place::span), 1U);
  EXPECT_EQ(all.count(place::other_cache), hardened_build ? 0U : 1U) << "a cache with few objects rests";
}

TEST_F(double_free_death, after_a_trim) {
  const auto all = places_of_freed([](const std::vector<void*>& objects, auto look) {
    release_all(objects);
    tarn_trim(0);
    look();
  });
  std::set<place> expected{place::span, place::page_heap};
  if (!hardened_build && os::system_page_size() < page_size) expected.insert(place::unlisted_span);
  EXPECT_EQ(all, expected);
}

TEST_F(double_free_death, after_periods_of_decay) {
  const auto all = places_of_freed([](const std::vector<void*>& objects, auto look) {
    std::thread([&objects] { release_all(objects); }).join();
    for (int period = 0; period < 4; ++period) {
      decay::run_period();
      look();
    }
  });
  EXPECT_EQ(all.count(place::span), 1U);
  EXPECT_EQ(all.count(place::page_heap), 1U);
}

// The pages become a span of the same or another class. Their contents, with the marks of the old objects, stay, so a
// second free of an old object is detected.
TEST_F(double_free_death, after_its_span_was_cut_anew) {
  std::size_t seen_in_new_spans = 0;
  for_each_class([&seen_in_new_spans](unsigned c) {
    const auto objects = allocate_many(c);
    release_all(objects);
    engine::local_cache->flush_all();
    engine::central_tier.flush_idle_magazines(true);
    engine::central_tier.release_spares(true);
    EXPECT_EQ(expect_all_seen(c, objects), std::set<place>{place::page_heap});
    for (const unsigned other : {c, std::min(c + 1, size_classes::count - 1), c > 8 ? c - 8 : c}) {
      const std::size_t size = class_info(other).size;
      void* const live = tarn_malloc(size);
      for (void* p : objects) {
        const page_map::entry page = engine::map.find(address_of(p));
        // `live` may be at the address of an old object, whose free would then be correct.
        if (p == live || page.size_class() != other) continue;
        EXPECT_TRUE(is_seen(p)) << class_info(c).size << " in a span of " << size;
        ++seen_in_new_spans;
      }
      tarn_free(live);
    }
    tarn_trim(0);
  });
  EXPECT_GT(seen_in_new_spans, 1000U);
}

// ---- a thread in its last round of key destructors has no cache any more ----

pthread_key_t ending;
std::atomic<bool> had_no_cache{false};
std::atomic<void*> freed_late{nullptr};

void free_in_last_round(void* round) {
  const auto r = reinterpret_cast<std::uintptr_t>(round);
  if (r < PTHREAD_DESTRUCTOR_ITERATIONS) {
    pthread_setspecific(ending, reinterpret_cast<void*>(r + 1));
    return;
  }
  had_no_cache = engine::attach_thread() == nullptr;
  tarn_free(freed_late);
}

// A block of grains has its mark inside, whatever the class of the magazine in which it waits.
TEST_F(double_free_death, of_a_block_of_grains_above_1_kib) {
  constexpr std::size_t size = 2000;
  std::vector<void*> sparse(16384);
  for (void*& p : sparse) p = std::memset(tarn_malloc(512), 1, 512);
  const auto kept = keep_some(sparse);
  release_all(sparse);
  tarn_trim(0);
  std::vector<void*> blocks(64);
  for (void*& p : blocks) p = tarn_malloc(size);
  const auto is_of_grains = [](void* p) {
    return size_classes::is_grain(static_cast<unsigned>(engine::map.class_of(address_of(p))));
  };
  ASSERT_TRUE(std::any_of(blocks.begin(), blocks.end(), is_of_grains));
  release_all(blocks);
  // The others go to the thread's magazine for the class.
  std::vector<void*> again(24);
  for (void*& p : again) p = tarn_malloc(size);
  for (void* p : blocks) {
    const bool is_live = std::any_of(again.begin(), again.end(), [p](void* live) {
      return address_of(p) - address_of(live) < class_info(class_of_size(size)).size;
    });
    EXPECT_TRUE(is_live || is_seen(p)) << p;
  }
  for (void* p : again) EXPECT_FALSE(is_seen(p)) << p;
  release_all(again);
  release_all(kept);
}

TEST_F(double_free_death, in_its_span_where_a_thread_without_a_cache_has_put_it) {
  ASSERT_EQ(pthread_key_create(&ending, free_in_last_round), 0);
  for_each_class([](unsigned c) {
    void* const keep = tarn_malloc(class_info(c).size);
    void* const object = tarn_malloc(class_info(c).size);
    freed_late = object;
    std::thread([] {
      tarn_free(tarn_malloc(1));
      pthread_setspecific(ending, reinterpret_cast<void*>(std::uintptr_t{1}));
    }).join();
    ASSERT_TRUE(had_no_cache.exchange(false));
    EXPECT_EQ(expect_all_seen(c, {object}), std::set<place>{place::span}) << class_info(c).size;
    tarn_free(keep);
  });
  pthread_key_delete(ending);
}

}  // namespace
}  // namespace tarn
