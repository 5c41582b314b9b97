// SPDX-License-Identifier: MIT
// machine: memory and threads under the weak memory model of C++20, without load buffering (RC11).
//
// A location is the list of its writes in modification order. A view is a position in each of these lists: how far a
// thread, or a releasing write, has seen. Synchronisation joins views. A load may read the write at its thread's
// position or any later one; a store may be inserted anywhere after that position. A plain variable has one value, and
// for every access the machine checks that the conflicting accesses happened before.
//
//   location x:   w0 ── w1 ── w2 ── w3        a load by a thread with seen[x] = 1 reads w1, w2 or w3;
//                       ^ seen[x]             its store goes between w1 and w2, between w2 and w3, or after w3
//
// explorer.hpp runs the threads. The machine is a value: one copy per state. Used by one thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace weak {

enum class order : std::uint8_t { relaxed, acquire, release, acq_rel };

constexpr unsigned most_threads = 4;
constexpr unsigned most_places = 10;

[[nodiscard]] constexpr bool acquires(order o) { return o == order::acquire || o == order::acq_rel; }
[[nodiscard]] constexpr bool releases(order o) { return o == order::release || o == order::acq_rel; }

// How far each location has been seen, and which accesses of plain variables happened before.
struct view {
  std::array<std::uint8_t, most_places> seen{};
  std::array<std::uint8_t, most_threads> happened{};

  void join_seen(const view& other) {
    for (unsigned i = 0; i < most_places; ++i) seen[i] = std::max(seen[i], other.seen[i]);
  }
  void join(const view& other) {
    join_seen(other);
    for (unsigned i = 0; i < most_threads; ++i) happened[i] = std::max(happened[i], other.happened[i]);
  }
};

struct write {
  int value;
  bool follows;  // made by a read-modify-write: no other write may come between it and the one that it read
  view published;
};

struct plain {
  int value = 0;
  std::uint8_t writer = 0;
  std::uint8_t written = 0;  // the writer's number of accesses at the last write; 0: the initial value
  std::array<std::uint8_t, most_threads> read{};
};

struct thread_view {
  view now;       // limits the thread's loads and stores
  view acquired;  // what `now` becomes by an acquire fence
  view released;  // what relaxed stores publish: the view at the last release fence
};

class machine {
 public:
  machine(unsigned threads, unsigned places, unsigned plains)
      : views_(threads), places_(places), plains_(plains) {
    for (auto& list : places_) list.push_back({0, false, {}});
  }

  void set_initial(unsigned place, int value) { places_[place][0].value = value; }
  void set_initial_plain(unsigned variable, int value) { plains_[variable].value = value; }

  [[nodiscard]] unsigned writes(unsigned place) const { return static_cast<unsigned>(places_[place].size()); }
  [[nodiscard]] int value(unsigned place, unsigned index) const { return places_[place][index].value; }
  [[nodiscard]] int last(unsigned place) const { return places_[place].back().value; }
  [[nodiscard]] int plain_value(unsigned variable) const { return plains_[variable].value; }
  // The first write that the thread may read. A store by the thread comes after it.
  [[nodiscard]] unsigned first_readable(unsigned thread, unsigned place) const {
    return views_[thread].now.seen[place];
  }
  // Whether a new write may be inserted at `index`, before the write that is there now.
  [[nodiscard]] bool may_insert(unsigned place, unsigned index) const {
    return index == writes(place) || !places_[place][index].follows;
  }

  int load(unsigned thread, unsigned place, unsigned index, order o) {
    thread_view& t = views_[thread];
    const write& w = places_[place][index];
    t.now.seen[place] = static_cast<std::uint8_t>(index);
    t.acquired.join(t.now);
    t.acquired.join(w.published);
    if (acquires(o)) t.now.join(w.published);
    return w.value;
  }

  void store(unsigned thread, unsigned place, unsigned index, int value, order o) {
    insert(thread, place, index, value, o, false, {});
  }

  // Reads the write at `index` and inserts the new one directly after it.
  int modify(unsigned thread, unsigned place, unsigned index, int value, order o) {
    const view read = places_[place][index].published;
    const int old = load(thread, place, index, o);
    insert(thread, place, index + 1, value, o, true, read);
    return old;
  }

  void fence(unsigned thread, order o) {
    thread_view& t = views_[thread];
    if (acquires(o)) t.now = t.acquired;
    if (releases(o)) t.released = t.now;
  }

  // After the later one of two full fences, its thread has seen everything that the thread of the earlier one had seen.
  void full_fence(unsigned thread) {
    thread_view& t = views_[thread];
    t.now = t.acquired;
    t.now.join_seen(fences_);
    fences_.join_seen(t.now);
    t.acquired = t.released = t.now;
  }

  // membarrier() of `caller` acts on `target`: what either thread did before happens before what the other does next.
  void fence_between(unsigned caller, unsigned target) {
    full_fence(target);
    views_[target].now.join(views_[caller].now);
    views_[caller].now.join(views_[target].now);
    for (const unsigned t : {caller, target}) views_[t].acquired.join(views_[t].now);
  }

  // False: a data race.
  [[nodiscard]] bool read_plain(unsigned thread, unsigned variable, int& value) {
    plain& p = plains_[variable];
    view& now = views_[thread].now;
    p.read[thread] = count_access(thread);
    value = p.value;
    return p.written == 0 || now.happened[p.writer] >= p.written;
  }
  [[nodiscard]] bool write_plain(unsigned thread, unsigned variable, int value) {
    plain& p = plains_[variable];
    const view& now = views_[thread].now;
    bool ordered = p.written == 0 || now.happened[p.writer] >= p.written;
    for (unsigned i = 0; i < views_.size(); ++i)
      ordered = ordered && (i == thread || now.happened[i] >= p.read[i]);
    p.value = value;
    p.writer = static_cast<std::uint8_t>(thread);
    p.written = count_access(thread);
    p.read = {};
    return ordered;
  }

  // Appends everything on which the further execution depends.
  void describe(std::string& key) const {
    for (const auto& list : places_) {
      key.push_back(static_cast<char>(list.size()));
      for (const write& w : list) {
        append(key, w.value);
        key.push_back(w.follows ? 1 : 0);
        append(key, w.published);
      }
    }
    for (const plain& p : plains_) {
      append(key, p.value);
      key.push_back(static_cast<char>(p.writer));
      key.push_back(static_cast<char>(p.written));
      key.append(p.read.begin(), p.read.end());
    }
    for (const thread_view& t : views_) {
      append(key, t.now);
      append(key, t.acquired);
      append(key, t.released);
    }
    append(key, fences_);
  }

 private:
  static void append(std::string& key, int value) {
    key.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static void append(std::string& key, const view& v) {
    key.append(v.seen.begin(), v.seen.end());
    key.append(v.happened.begin(), v.happened.end());
  }

  std::uint8_t count_access(unsigned thread) {
    thread_view& t = views_[thread];
    const auto count = ++t.now.happened[thread];
    t.acquired.happened[thread] = count;
    return count;
  }

  void insert(unsigned thread, unsigned place, unsigned index, int value, order o, bool follows,
              view published) {
    make_room(place, index);
    thread_view& t = views_[thread];
    t.now.seen[place] = static_cast<std::uint8_t>(index);
    t.acquired.join(t.now);
    shift(published, place, index);
    published.join(releases(o) ? t.now : t.released);
    published.seen[place] = static_cast<std::uint8_t>(index);
    places_[place].insert(places_[place].begin() + index, {value, follows, published});
  }

  // Views refer to writes by their index: those at or after the new write's index grow by one.
  void make_room(unsigned place, unsigned index) {
    for (auto& list : places_) {
      for (write& w : list) shift(w.published, place, index);
    }
    for (thread_view& t : views_) {
      shift(t.now, place, index);
      shift(t.acquired, place, index);
      shift(t.released, place, index);
    }
    shift(fences_, place, index);
  }
  static void shift(view& v, unsigned place, unsigned index) {
    if (v.seen[place] >= index) ++v.seen[place];
  }

  std::vector<thread_view> views_;
  std::vector<std::vector<write>> places_;
  std::vector<plain> plains_;
  view fences_;
};

}  // namespace weak
