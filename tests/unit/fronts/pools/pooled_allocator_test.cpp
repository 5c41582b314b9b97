// SPDX-License-Identifier: MIT
// pooled_allocator: the allocator requirements, all containers compared with those of std::allocator, threads, ends of
// threads and of the program; and node_of.
#include "tarn/pooled.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdlib>
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <random>
#include <scoped_allocator>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "fronts/pools/pool_support.hpp"

namespace {

using tarn::node_of;
using tarn::testing_support::in_threads;
using tarn::testing_support::pools_named;

template <class T>
using pooled = tarn::pooled_allocator<T>;
template <class K, class V>
using pooled_pair = pooled<std::pair<const K, V>>;

// ---- what the standard requires of an allocator ----

using traits = std::allocator_traits<pooled<int>>;
static_assert(std::is_same_v<traits::pointer, int*> && std::is_same_v<traits::size_type, std::size_t>);
static_assert(std::is_same_v<traits::rebind_alloc<long>, tarn::pooled_allocator<long, std::allocator<long>>>);
static_assert(traits::is_always_equal::value && traits::propagate_on_container_move_assignment::value);
static_assert(!traits::propagate_on_container_copy_assignment::value &&
              !traits::propagate_on_container_swap::value);
static_assert(std::is_empty_v<pooled<int>> && std::is_nothrow_copy_constructible_v<pooled<int>>);
static_assert(sizeof(std::map<int, int, std::less<>, pooled_pair<int, int>>) == sizeof(std::map<int, int>));
template <class Allocator>
concept constructs = requires(Allocator a, int* p) { a.construct(p, 1); };
static_assert(!constructs<pooled<int>>, "std::allocator has none either");

struct counts {
  std::size_t blocks = 0, one = 0, constructed = 0;
};
// An allocator that is not always equal, propagates with its container, and counts the requests.
template <class T>
struct counting_base {
  using value_type = T;
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::false_type;

  explicit counting_base(counts* where) : to(where) {}
  template <class U>
  counting_base(const counting_base<U>& other)  // NOLINT(google-explicit-constructor)
      : to(other.to) {}
  T* allocate(std::size_t count) {
    ++to->blocks;
    to->one += count == 1 ? 1 : 0;
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* memory, std::size_t count) {
    --to->blocks;
    std::allocator<T>().deallocate(memory, count);
  }
  template <class U, class... Args>
  void construct(U* object, Args&&... args) {
    ++to->constructed;
    std::construct_at(object, std::forward<Args>(args)...);
  }
  [[nodiscard]] std::size_t max_size() const { return 1000; }
  template <class U>
  bool operator==(const counting_base<U>& other) const {
    return to == other.to;
  }
  counts* to;
};
using counted_allocator = tarn::pooled_allocator<int, counting_base<int>>;
using counted_traits = std::allocator_traits<counted_allocator>;
static_assert(!counted_traits::is_always_equal::value && counted_traits::propagate_on_container_swap::value);
static_assert(counted_traits::propagate_on_container_copy_assignment::value);
static_assert(
    std::is_same_v<counted_traits::rebind_alloc<char>, tarn::pooled_allocator<char, counting_base<char>>>);

TEST(pooled_allocator, one_object_is_the_pools_and_more_are_the_bases) {
  counts counted;
  counted_allocator a{counting_base<int>(&counted)};
  int* const one = a.allocate(1);
  EXPECT_EQ(counted.blocks, 0U);
  int* const many = a.allocate(5);
  EXPECT_EQ(counted.blocks, 1U);
  a.deallocate(many, 5);
  a.deallocate(one, 1);
  EXPECT_EQ(counted.blocks, 0U);
  EXPECT_EQ(counted.one, 0U);
  EXPECT_EQ(counted_traits::max_size(a), 1000U);
  EXPECT_EQ(traits::max_size(pooled<int>()), std::allocator_traits<std::allocator<int>>::max_size({}));
}

TEST(pooled_allocator, equality_is_the_bases) {
  counts here, there;
  const counted_allocator a{counting_base<int>(&here)}, b{counting_base<int>(&here)},
      c{counting_base<int>(&there)};
  EXPECT_TRUE(a == b);
  EXPECT_FALSE(a == c);
  EXPECT_TRUE(a != c);
  const counted_traits::rebind_alloc<long> other(a);
  EXPECT_TRUE(a == other);
  EXPECT_TRUE(other != c);
  EXPECT_TRUE(pooled<int>() == pooled<long>());
  EXPECT_EQ(counted_traits::select_on_container_copy_construction(a).base().to, &here);
}

TEST(pooled_allocator, construction_is_the_bases_where_it_has_one) {
  counts counted;
  {
    std::list<int, counted_allocator> list(counted_allocator{counting_base<int>(&counted)});
    list.push_back(1);
    list.push_back(2);
  }
  EXPECT_EQ(counted.constructed, 2U);
}

TEST(pooled_allocator, arrays_of_a_hash_table_are_the_bases) {
  counts counted;
  using allocator =
      tarn::pooled_allocator<std::pair<const int, int>, counting_base<std::pair<const int, int>>>;
  std::unordered_map<int, int, std::hash<int>, std::equal_to<>, allocator> map(
      8, std::hash<int>(), std::equal_to<>(), allocator(counting_base<std::pair<const int, int>>(&counted)));
  for (int i = 0; i < 1000; ++i) map[i] = i;
  EXPECT_EQ(counted.blocks, 1U) << "only the array of buckets comes from the base";
  EXPECT_EQ(counted.one, 0U);
  map.clear();
}

TEST(pooled_allocator, a_failing_constructor_gives_the_node_back) {
  struct fragile {
    explicit fragile(int n) {
      if (n == 3) throw std::runtime_error("as asked");
    }
    char mark[24];
  };
  std::list<fragile, pooled<fragile>> list;
  list.emplace_back(1);
  EXPECT_THROW(list.emplace_back(3), std::runtime_error);
  EXPECT_EQ(pools_named("fragile").live, 1U);
}

// ---- containers compared with the same containers under std::allocator ----

struct value {
  value(int n) : text(std::to_string(n)), number(n) {}  // NOLINT(google-explicit-constructor)
  friend bool operator==(const value&, const value&) = default;
  friend auto operator<=>(const value& a, const value& b) { return a.number <=> b.number; }
  std::string text;
  int number;
};
struct value_hash {
  std::size_t operator()(const value& v) const { return static_cast<std::size_t>(v.number % 101); }
};

template <class Container>
void insert_number(Container& c, int n) {
  if constexpr (requires { typename Container::mapped_type; }) {
    c.emplace(n, value(n));
  } else if constexpr (requires { typename Container::key_type; }) {
    c.emplace(n);
  } else if constexpr (requires { c.push_back(value(n)); }) {
    c.push_back(value(n));
  } else {
    c.push_front(value(n));
  }
}
template <class Container>
void erase_number(Container& c, int n) {
  if constexpr (requires { typename Container::key_type; }) {
    c.erase(typename Container::key_type(n));
  } else {
    std::erase(c, value(n));
  }
}

template <class Pooled, class Plain>
struct twins {
  using pooled_type = Pooled;
  using plain_type = Plain;
};
template <class Twins>
class pooled_containers : public testing::Test {};
using container_types = testing::Types<
    twins<std::list<value, pooled<value>>, std::list<value>>,
    twins<std::forward_list<value, pooled<value>>, std::forward_list<value>>,
    twins<std::deque<value, pooled<value>>, std::deque<value>>,
    twins<std::vector<value, pooled<value>>, std::vector<value>>,
    twins<std::set<value, std::less<>, pooled<value>>, std::set<value, std::less<>>>,
    twins<std::multiset<value, std::less<>, pooled<value>>, std::multiset<value, std::less<>>>,
    twins<std::map<int, value, std::less<>, pooled_pair<int, value>>, std::map<int, value, std::less<>>>,
    twins<std::multimap<int, value, std::less<>, pooled_pair<int, value>>,
          std::multimap<int, value, std::less<>>>,
    twins<std::unordered_set<value, value_hash, std::equal_to<>, pooled<value>>,
          std::unordered_set<value, value_hash, std::equal_to<>>>,
    twins<std::unordered_multiset<value, value_hash, std::equal_to<>, pooled<value>>,
          std::unordered_multiset<value, value_hash, std::equal_to<>>>,
    twins<std::unordered_map<int, value, std::hash<int>, std::equal_to<>, pooled_pair<int, value>>,
          std::unordered_map<int, value, std::hash<int>, std::equal_to<>>>,
    twins<std::unordered_multimap<int, value, std::hash<int>, std::equal_to<>, pooled_pair<int, value>>,
          std::unordered_multimap<int, value, std::hash<int>, std::equal_to<>>>>;
TYPED_TEST_SUITE(pooled_containers, container_types);

template <class A, class B>
bool same_elements(const A& a, const B& b) {
  if constexpr (requires { a.bucket_count(); }) {
    using element = std::decay_t<decltype(*a.begin())>;
    const std::multiset<int> left = [&] {
      std::multiset<int> numbers;
      for (const element& e : a) {
        if constexpr (requires { e.number; }) {
          numbers.insert(e.number);
        } else {
          numbers.insert(e.first == e.second.number ? e.first : -1);
        }
      }
      return numbers;
    }();
    std::multiset<int> right;
    for (const auto& e : b) {
      if constexpr (requires { e.number; }) {
        right.insert(e.number);
      } else {
        right.insert(e.first);
      }
    }
    return left == right;
  } else {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
}

TYPED_TEST(pooled_containers, hold_what_plain_ones_hold) {
  typename TypeParam::pooled_type pooled_one;
  typename TypeParam::plain_type plain;
  std::mt19937 random(17);
  for (int step = 0; step < 6000; ++step) {
    const int n = static_cast<int>(random() % 500);
    if (random() % 3 != 0) {
      insert_number(pooled_one, n);
      insert_number(plain, n);
    } else {
      erase_number(pooled_one, n);
      erase_number(plain, n);
    }
  }
  EXPECT_TRUE(same_elements(pooled_one, plain));
}

TYPED_TEST(pooled_containers, may_be_copied_moved_and_swapped) {
  typename TypeParam::pooled_type first, second;
  typename TypeParam::plain_type odd, even;
  for (int n = 0; n < 300; ++n) {
    insert_number(n % 2 == 0 ? first : second, n);
    if (n % 2 == 0) {
      insert_number(even, n);
    } else {
      insert_number(odd, n);
    }
  }
  typename TypeParam::pooled_type copy = first;
  std::swap(first, second);
  EXPECT_TRUE(same_elements(first, odd) && same_elements(second, even) && same_elements(copy, even));
  copy = std::move(first);
  EXPECT_TRUE(same_elements(copy, odd));
  const typename TypeParam::pooled_type moved = std::move(second);
  EXPECT_TRUE(same_elements(moved, even));
}

// Each container is filled by one thread and emptied by another, all at the same time.
TYPED_TEST(pooled_containers, may_be_emptied_by_another_thread) {
  constexpr int threads = 4;
  std::vector<typename TypeParam::pooled_type> containers(threads);
  for (int round = 0; round < 3; ++round) {
    in_threads(threads, [&](int index) {
      for (int n = 0; n < 400; ++n) insert_number(containers[static_cast<std::size_t>(index)], n);
    });
    typename TypeParam::plain_type expected;
    for (int n = 0; n < 400; ++n) insert_number(expected, n);
    for (const auto& c : containers) ASSERT_TRUE(same_elements(c, expected));
    in_threads(threads,
               [&](int index) { containers[static_cast<std::size_t>(index + 1) % threads].clear(); });
  }
}

TEST(pooled_allocator, containers_with_unequal_bases_move_by_element) {
  counts here, there;
  using list = std::list<int, counted_allocator>;
  list a(3, 7, counted_allocator{counting_base<int>(&here)});
  const list b(std::move(a), counted_allocator{counting_base<int>(&there)});
  EXPECT_EQ(b, list(3, 7, counted_allocator{counting_base<int>(&here)}));
}

TEST(pooled_allocator, works_inside_other_allocators_and_types) {
  using inner = std::list<int, pooled<int>>;
  std::vector<inner, std::scoped_allocator_adaptor<pooled<inner>>> nested(4);
  nested[2].push_back(5);
  EXPECT_EQ(nested[2].front(), 5);
  const std::vector<bool, pooled<bool>> bits(100, true);
  EXPECT_TRUE(bits[99]);
  const std::basic_string<char, std::char_traits<char>, pooled<char>> text(100, 'x');
  EXPECT_EQ(text.back(), 'x');
  std::function<int()> later = [list = inner{1, 2, 3}] { return list.back(); };
  EXPECT_EQ(later(), 3);
}

struct shared_value {
  explicit shared_value(int n) : number(n) {}
  int number;
};

TEST(pooled_allocator, allocate_shared_is_one_slot) {
  auto object = std::allocate_shared<shared_value>(pooled<shared_value>(), 3);
  EXPECT_EQ(object->number, 3);
  EXPECT_EQ(pools_named("shared_value").live, 1U);
  object.reset();
  EXPECT_EQ(pools_named("shared_value").live, 0U);
}

// The element type is complete only after its container has been named.
struct tree {
  int number = 1;
  std::list<tree, pooled<tree>> children;
};

TEST(pooled_allocator, the_type_may_be_incomplete_where_the_container_is_named) {
  tree root;
  root.children.emplace_back().children.emplace_back().number = 4;
  EXPECT_EQ(root.children.front().children.front().number, 4);
}

// ---- destruction in any order ----

using numbers = std::map<int, value, std::less<>, pooled_pair<int, value>>;

void fill(numbers& n) {
  for (int i = 0; i < 100; ++i) n.emplace(i, i);
}
void check(const numbers& n) {
  if (n.size() != 100) std::abort();
  for (const auto& [key, v] : n) {
    if (v.number != key || v.text != std::to_string(key)) std::abort();
  }
}

// A container that is checked, emptied and filled again when it is destroyed: after main, or at the end of a thread.
struct checked_numbers {
  checked_numbers() { fill(held); }
  ~checked_numbers() {
    check(held);
    held.clear();
    fill(held);  // a static object's destructor may still allocate
    check(held);
  }
  numbers held;
};
checked_numbers before_main;          // NOLINT(cert-err58-cpp)
std::unique_ptr<numbers> given_away;  // destroyed after main; made by a thread that has ended by then
thread_local checked_numbers first_of_thread;
thread_local checked_numbers second_of_thread;

TEST(pooled_allocator, thread_local_containers_end_in_either_order) {
  for (const bool swapped : {false, true}) {
    std::thread([swapped] {
      check(swapped ? second_of_thread.held : first_of_thread.held);
      check(swapped ? first_of_thread.held : second_of_thread.held);
    }).join();
  }
  check(first_of_thread.held);  // the main thread's one, which is destroyed when the program ends
}

TEST(pooled_allocator, nodes_may_be_freed_after_the_threads_bins_are_gone) {
  if (tarn::testing_support::under_thread_sanitizer) {
    GTEST_SKIP() << "ThreadSanitizer considers a thread ended before its last destructors have run";
  }
  static pthread_key_t key;
  static int rounds;
  rounds = 0;
  // Called again as long as it sets a value: in the last rounds, the thread's other data is gone.
  ASSERT_EQ(pthread_key_create(&key,
                               [](void* held) {
                                 auto* const n = static_cast<numbers*>(held);
                                 check(*n);
                                 n->clear();
                                 fill(*n);
                                 if (++rounds < 4) {
                                   pthread_setspecific(key, n);
                                 } else {
                                   delete n;
                                 }
                               }),
            0);
  std::thread([] {
    auto made = std::make_unique<numbers>();
    fill(*made);
    pthread_setspecific(key, made.release());
  }).join();
  EXPECT_EQ(rounds, 4);
  pthread_key_delete(key);
}

TEST(pooled_allocator, containers_may_be_used_after_main) {
  std::thread([] {
    given_away = std::make_unique<numbers>();
    fill(*given_away);
  }).join();
  ASSERT_EQ(std::atexit([] {
              check(before_main.held);
              struct only_after_main {
                long a, b, c;
              };
              std::list<only_after_main, pooled<only_after_main>> late(50);  // the first use of this pool
              late.clear();
              numbers other;
              fill(other);
              check(other);
            }),
            0);
}

// ---- node_of ----

TEST(node_of, names_the_nodes_of_all_containers) {
  const auto lists = node_of<std::list<int>>();
  EXPECT_GE(lists.size, sizeof(int) + 2 * sizeof(void*));
  EXPECT_EQ(lists.alignment, alignof(void*));
  EXPECT_NE(lists.name.find("int"), std::string_view::npos);
  EXPECT_GE(node_of<std::forward_list<long>>().size, sizeof(long) + sizeof(void*));
  EXPECT_GE((node_of<std::map<int, double>>().size),
            sizeof(std::pair<const int, double>) + 3 * sizeof(void*));
  EXPECT_EQ((node_of<std::map<int, double>>()), (node_of<std::multimap<int, double>>()));
  EXPECT_EQ(node_of<std::set<int>>(), node_of<std::multiset<int>>());
  EXPECT_GE(node_of<std::unordered_set<long>>().size, sizeof(long) + sizeof(void*));
  EXPECT_EQ(node_of<std::unordered_set<long>>(), node_of<std::unordered_multiset<long>>());
  EXPECT_EQ((node_of<std::unordered_map<int, int>>()), (node_of<std::unordered_multimap<int, int>>()));
}

TEST(node_of, is_what_a_pooled_container_takes_its_nodes_from) {
  struct tagged {
    char bytes[56];
  };
  std::list<tagged, pooled<tagged>> list(3);
  const auto node = node_of<decltype(list)>();
  EXPECT_EQ(pools_named(node.name).live, 3U);
  EXPECT_EQ(node, node_of<std::list<tagged>>());
}

TEST(node_of, an_element_may_be_given) {
  struct keyed {
    explicit keyed(int n) : number(n) {}
    bool operator<(const keyed& other) const { return number < other.number; }
    int number;
  };
  EXPECT_GT(node_of<std::set<keyed>>(4).size, sizeof(keyed));
  EXPECT_GT((node_of<std::map<keyed, std::unique_ptr<int>>>(keyed(3), nullptr).size),
            sizeof(void*) + sizeof(keyed));
  struct alignas(64) aligned_line {
    char byte;
  };
  EXPECT_EQ(node_of<std::list<aligned_line>>(aligned_line()).alignment, 64U);
}

TEST(node_of, keeps_to_the_containers_own_parameters) {
  EXPECT_EQ((node_of<std::pmr::map<int, int>>()), (node_of<std::map<int, int>>()));
  EXPECT_GT((node_of<std::set<value, std::greater<>>>(1).size), sizeof(value));
}

}  // namespace
