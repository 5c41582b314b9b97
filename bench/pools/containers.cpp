// SPDX-License-Identifier: MIT
// containers: node containers of ints: insert N, erase all one by one in random order, insert them again.
// Idea: the usual benchmark for per-type memory pools: random ints (mt19937 with its default seed, all values of int)
// in an unordered_set. That one uses the same ints for every container; here each container gets new ones.
// Known to favour: in the first two phases, allocators that only bump a pointer; in the third, allocators that hand
// memory out in address order again. Monotonic resources gain because they never take memory back; the last column
// shows what that costs. boost::fast_pool_allocator needs longer for arrays (the buckets of a set) with every
// container.
// Method: up to 100,000 elements the figures are medians over 41 containers, made one after the other in the same
// process so that memory is warm; "first" is the sum of the first container. Where other programs disturb, up to 200
// are made and the quiet ones count (micro/quiet_core.hpp). Above 100,000 the figures are those of one container.
// Output: one JSON object: ticks per operation of the three phases, and by how many bytes the process grew.
#include <list>
#include <map>
#include <random>
#include <unordered_set>

#include "../micro/quiet_core.hpp"
#include "allocators.hpp"
#include "resident.hpp"

namespace {

constexpr const char* own_arguments = "unordered_set|list|map N";
constexpr std::size_t single_above = 100'000;
constexpr std::size_t wanted_repetitions = 41;
constexpr std::size_t fewest_repetitions = 11;
constexpr std::size_t most_repetitions = 200;
constexpr double most_seconds = 3;

struct phases {
  double insert;
  double erase;
  double again;
};

// The keys in the order of insertion, and the order in which they are erased. Each container gets new ones: a processor
// learns the branches for a few thousand keys that repeat, and how well depends on unrelated code between them.
struct plan {
  std::vector<int> keys;
  std::vector<std::uint32_t> leaving;

  explicit plan(std::size_t count) : keys(count), leaving(count) {
    for (std::uint32_t index = 0; index < count; ++index) leaving[index] = index;
  }
  void renew() {
    for (int& key : keys) key = static_cast<int>(random_());
    std::shuffle(leaving.begin(), leaving.end(), random_);
  }

 private:
  std::mt19937 random_;
};

template <class insert_type, class erase_type>
phases run_phases(std::size_t count, insert_type insert, erase_type erase) {
  const std::uint64_t start = bench::ticks();
  insert();
  const std::uint64_t filled = bench::ticks();
  erase();
  const std::uint64_t empty = bench::ticks();
  insert();
  const std::uint64_t end = bench::ticks();
  const auto each = [count](std::uint64_t from, std::uint64_t to) {
    return static_cast<double>(to - from) / static_cast<double>(count);
  };
  return {each(start, filled), each(filled, empty), each(empty, end)};
}

template <class container_type, class source_type>
container_type make(source_type& source) {
  return container_type(source.template get<typename container_type::value_type>());
}
template <class T, class source_type>
using allocator_of = decltype(std::declval<source_type&>().template get<T>());

// Each filler has what its container's benchmark needs beside the container, allocated before memory is counted. Its
// run() is a separate function, so that the register allocation of one contender's loop does not depend on the others.
template <class container_type, class source_type>
struct keyed_filler {
  const plan& what;

  explicit keyed_filler(const plan& given) : what(given) {}
  [[gnu::noinline]] phases run(source_type& source) {
    auto container = make<container_type>(source);
    return run_phases(
        what.keys.size(),
        [&] {
          for (const int key : what.keys) {
            if constexpr (requires { typename container_type::mapped_type; }) {
              container.emplace(key, key);
            } else {
              container.insert(key);
            }
          }
        },
        [&] {
          for (const std::uint32_t index : what.leaving) container.erase(what.keys[index]);
        });
  }
};

template <class source_type>
using set_of = std::unordered_set<int, std::hash<int>, std::equal_to<>, allocator_of<int, source_type>>;
template <class source_type>
using set_filler = keyed_filler<set_of<source_type>, source_type>;
template <class source_type>
using map_of = std::map<int, int, std::less<>, allocator_of<std::pair<const int, int>, source_type>>;
template <class source_type>
using map_filler = keyed_filler<map_of<source_type>, source_type>;

template <class source_type>
struct list_filler {
  using container_type = std::list<int, allocator_of<int, source_type>>;
  const plan& what;
  std::vector<typename container_type::iterator> places;

  explicit list_filler(const plan& given) : what(given), places(given.keys.size()) {}
  [[gnu::noinline]] phases run(source_type& source) {
    auto list = make<container_type>(source);
    return run_phases(
        what.keys.size(),
        [&] {
          for (std::size_t index = 0; index < what.keys.size(); ++index) {
            places[index] = list.insert(list.end(), what.keys[index]);
          }
        },
        [&] {
          for (const std::uint32_t index : what.leaving) list.erase(places[index]);
        });
  }
};

double middle_of(std::vector<phases>& all, double phases::*phase) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end(),
                   [phase](const phases& a, const phases& b) { return a.*phase < b.*phase; });
  return (*middle).*phase;
}

template <class source_type, template <class> class filler_type>
void measure(plan& what) {
  filler_type<source_type> filler(what);
  const bool single = what.keys.size() > single_above;
  const double before = bench::resident_bytes();
  double first = 0;
  auto all = bench::quiet_readings<phases>(
      single ? 1 : wanted_repetitions, single ? 1 : fewest_repetitions, single ? 1 : most_repetitions,
      most_seconds, [&what] { what.renew(); },
      [&] {
        source_type source;
        const phases each = filler.run(source);
        if (first == 0) first = each.insert + each.erase + each.again;
        return each;
      });
  const double grown = std::max(bench::peak_bytes() - before, 0.0);
  const double insert = middle_of(all, &phases::insert);
  const double erase = middle_of(all, &phases::erase);
  const double again = middle_of(all, &phases::again);
  std::printf(
      "{\"insert\": %.2f, \"erase\": %.2f, \"again\": %.2f, \"sum\": %.2f, \"first\": %.2f, \"grown\": %.0f}\n",
      insert, erase, again, insert + erase + again, first, grown);
}

template <class Contender>
void run(const bench::scene_arguments& arguments) {
  using source_type = typename Contender::source;
  const std::string_view container = arguments.rest[0];
  const std::size_t full = bench::parse_number(arguments.rest[1], 100'000'000, "N", "containers");
  plan what(arguments.scaled(full, 100));
  if (container == "unordered_set") {
    measure<source_type, set_filler>(what);
  } else if (container == "list") {
    measure<source_type, list_filler>(what);
  } else if (container == "map") {
    measure<source_type, map_filler>(what);
  } else {
    bench::refuse("containers", own_arguments);
  }
}

}  // namespace

int main(int count, char** words) {
  return bench::run_scene(bench::container_allocators(), count, words, own_arguments,
                          []<class Contender>(const auto& arguments) { run<Contender>(arguments); });
}
