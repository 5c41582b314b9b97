// SPDX-License-Identifier: MIT
// machine: memory and threads under the weak memory model of C++20, without load buffering (RC11).
//
// A location is the list of its writes in modification order. A view is how far along each of these lists a thread, or a
// write that releases, has seen; synchronisation joins views. A load may read any write that its thread's view has not
// passed; a store may take any place behind what its thread has seen. A plain variable has one value, and every access is
// checked to happen after the accesses that it conflicts with.
//
// A program of threads is explored by explorer.hpp. The machine is a value: one copy per state. Used by one thread.
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
  bool follows;  // made by a read-modify-write: no other write comes between it and the one before
  view published;
};

struct plain {
  int value = 0;
  std::uint8_t writer = 0;
  std::uint8_t written = 0;  // the writer's count of accesses then; 0: before the threads began
  std::array<std::uint8_t, most_threads> read{};
};

struct thread_view {
  view now;       // what the thread's loads and stores are bound by
  view acquired;  // what an acquire fence would add
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
  // The first write that the thread may read, and the first place that a store of its may take.
  [[nodiscard]] unsigned first_readable(unsigned thread, unsigned place) const {
    return views_[thread].now.seen[place];
  }
  // Whether a new write may take the place `index`, before the write that is there now.
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

  // Reads the write at `index` and puts the new one right behind it.
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

  // A full fence: of two of them, the later one's thread has seen all that the earlier one's had.
  void full_fence(unsigned thread) {
    thread_view& t = views_[thread];
    t.now = t.acquired;
    t.now.join_seen(fences_);
    fences_.join_seen(t.now);
    t.acquired = t.released = t.now;
  }

  // membarrier() of `caller` reaches `target`: what either did before, happened before what the other does from here on.
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

  // Everything that the future depends on.
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

  // Views name writes by their place in the list: those behind the new one move up.
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
