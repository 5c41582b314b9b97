// SPDX-License-Identifier: MIT
// What is derived from demangled function names: constructed and allocated types, short and plain names.
#include "profiler/analyze/function_name.hpp"

#include <gtest/gtest.h>

namespace tarn::profiler {
namespace {

TEST(function_name, demangling) {
  EXPECT_EQ(demangled("_ZN4book5levelC1ERK5order"), "book::level::level(order const&)");
  EXPECT_EQ(demangled("main"), "main");
  EXPECT_EQ(demangled("_Znonsense"), "_Znonsense");
  EXPECT_EQ(demangled(""), "");
  EXPECT_EQ(demangled("_ZN3foo3barEv"), "foo::bar()");
  EXPECT_EQ(demangled("_Runner"), "_Runner");
  EXPECT_EQ(demangled("_R"), "_R");
  EXPECT_EQ(demangled("_"), "_");
}

// The build has libiberty's demangler (tarn_dependencies.cmake).
bool knows_rust() { return demangled("_RNvCs1_3foo3bar") == "foo::bar"; }

TEST(function_name, a_function_of_rust_is_no_constructor) {
  EXPECT_EQ(constructed_type("alloc::alloc::alloc"), "");
}

TEST(function_name, names_of_rust_are_readable) {
  if (!knows_rust()) GTEST_SKIP() << "tarn was built without libiberty";
  EXPECT_EQ(demangled("_ZN46_$LT$my..row$u20$as$u20$core..clone..Clone$GT$5clone17h0123456789abcdefE"),
            "<my::row as core::clone::Clone>::clone");
  EXPECT_EQ(demangled("_ZN4core3fmt5write17h0123456789abcdefE.llvm.4711"), "core::fmt::write");
  EXPECT_EQ(demangled("_RNvMs_NtCs3ssYzQotkvD_3std4pathNtB4_7PathBuf3new"), "<std::path::PathBuf>::new");
  EXPECT_EQ(demangled("_RINvCs1_3foo3barlE"), "foo::bar::<i32>");
}

TEST(function_name, a_small_name_that_stands_for_a_long_one_is_left_as_it_is) {
  if (!knows_rust()) GTEST_SKIP() << "tarn was built without libiberty";
  // A tuple of two of the tuple before it, many times.
  std::string name = "_RINvCs1_1a1b";
  std::string last = "l";
  for (int depth = 0; depth < 40; ++depth) {
    const std::size_t at = name.size() - 2;  // from behind "_R"
    name += "T" + last + last + "E";
    std::string digits;
    for (std::size_t value = at - 1; value != 0; value /= 62)
      digits.insert(digits.begin(),
                    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[value % 62]);
    last = "B" + digits + "_";
  }
  name += "E";
  EXPECT_EQ(demangled(name.c_str()), name);
  const std::string endless = "_R" + std::string(100000, 'a');
  EXPECT_EQ(demangled(endless.c_str()), endless);
}

TEST(function_name, constructors) {
  EXPECT_EQ(constructed_type("order::order()"), "order");
  EXPECT_EQ(constructed_type("book::level::level(order const&)"), "book::level");
  EXPECT_EQ(constructed_type("a::b<int, c<d> >::b(int, std::function<void (int)>)"), "a::b<int, c<d> >");
  EXPECT_EQ(constructed_type("a::b<int>::b<long>(long)"), "a::b<int>");
  EXPECT_EQ(constructed_type("(anonymous namespace)::thing::thing(int)"), "(anonymous namespace)::thing");
  EXPECT_EQ(constructed_type("a::b::b"), "a::b");
  EXPECT_EQ(
      constructed_type("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::"
                       "basic_string(char const*, std::allocator<char> const&)"),
      "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >");
  for (const char* other :
       {"order::~order()", "order::make(order)", "make", "main", "", "::", "a::b::c()", "order()",
        "void order::order_all()", "operator new(unsigned long)", "std::operator<(int, int)"}) {
    EXPECT_EQ(constructed_type(other), "") << other;
  }
}

TEST(function_name, allocators) {
  EXPECT_EQ(allocated_type("std::__new_allocator<order>::allocate(unsigned long, void const*)"), "order");
  EXPECT_EQ(allocated_type("__gnu_cxx::new_allocator<order*>::allocate(unsigned long, void const*)"),
            "order*");
  EXPECT_EQ(
      allocated_type("std::__new_allocator<std::_Rb_tree_node<std::pair<int const, a::b<c> > > >::allocate("
                     "unsigned long, void const*)"),
      "std::_Rb_tree_node<std::pair<int const, a::b<c> > >");
  EXPECT_EQ(allocated_type(
                "std::allocator_traits<std::allocator<order> >::allocate(std::allocator<order>&, unsigned "
                "long)"),
            "order");
  EXPECT_EQ(allocated_type("std::__1::allocator<order>::allocate[abi:v160006](unsigned long)"), "order");
  EXPECT_EQ(allocated_type("std::__new_allocator<(anonymous namespace)::order>::allocate"),
            "(anonymous namespace)::order");
  EXPECT_EQ(allocated_type(
                "std::__new_allocator<std::function<void (int)> >::allocate(unsigned long, void const*)"),
            "std::function<void (int)>");
  EXPECT_EQ(
      allocated_type("std::__detail::_MakeUniq<order>::__single_object std::make_unique<order, int&>(int&)"),
      "order");
  EXPECT_EQ(allocated_type("std::unique_ptr<order[]> std::make_unique<order []>(unsigned long)"), "order");
  EXPECT_EQ(allocated_type(
                "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_create("
                "unsigned long&, unsigned long)"),
            "char");
  EXPECT_EQ(allocated_type("std::_Vector_base<order, std::allocator<order> >::_M_allocate(unsigned long)"),
            "order");
  EXPECT_TRUE(is_allocate("std::_Vector_base<order, std::allocator<order> >::_M_allocate(unsigned long)"));
  EXPECT_FALSE(is_allocate("std::allocator<order>::deallocate(order*, unsigned long)"));
  for (const char* other : {"std::__new_allocator<order>::deallocate(order*, unsigned long)",
                            "std::__new_allocator<order>::__new_allocator()", "allocate(int)",
                            "pool<order>::allocate()", "std::__new_allocator<order", "std::allocator<", "",
                            "std::vector<order, std::allocator<order> >::reserve(unsigned long)"}) {
    EXPECT_EQ(allocated_type(other), "") << other;
  }
}

TEST(function_name, class_templates) {
  const auto is = [](const char* function, const char* name, const char* first) {
    const class_template got = class_template_of(function);
    EXPECT_EQ(got.name, name) << function;
    EXPECT_EQ(got.first_argument, first) << function;
  };
  is("std::vector<order, std::allocator<order> >::push_back(order&&)", "std::vector", "order");
  is("void std::vector<a<b, c>, d>::_M_realloc_insert<int>(int)", "std::vector", "a<b, c>");
  is("std::_Rb_tree<int, x>::_M_insert_", "std::_Rb_tree", "int");
  is("x::y<int>::z::f()", "", "");
  is("f<int>(int)", "", "");
  is("", "", "");
}

TEST(function_name, short_ones) {
  EXPECT_EQ(short_name("main"), "main");
  EXPECT_EQ(short_name("<alloc::vec::Vec<my::row> as core::iter::FromIterator<my::row>>::from_iter"),
            "alloc::vec::Vec<my::row>::from_iter");
  EXPECT_EQ(short_name("<alloc::raw_vec::RawVec<u8>>::grow_one"), "alloc::raw_vec::RawVec<u8>::grow_one");
  EXPECT_EQ(short_name("<"), "<");
  EXPECT_EQ(short_name("<<<<"), "<<<<");
  EXPECT_EQ(short_name("book::level::add(order const&) const"), "book::level::add");
  EXPECT_EQ(short_name("(anonymous namespace)::run(int) [clone .isra.0]"), "(anonymous namespace)::run");
  EXPECT_EQ(short_name("a(int)::{lambda()#1}::operator()() const"), "a(int)::{lambda()#1}::operator()");
  EXPECT_EQ(short_name("void a::b<int>(int)"), "a::b<int>");
  EXPECT_EQ(
      short_name("std::vector<market::order, std::allocator<market::order> >::push_back(market::order&&)"),
      "std::vector<…>::push_back");
  EXPECT_EQ(
      short_name(
          "decltype (::new((void*)(0)) order((declval<int>)())) std::construct_at<order, int>(order*, int&&)"),
      "std::construct_at<order, int>");
  EXPECT_EQ(short_name("operator<<(int, int)"), "operator<<");
  EXPECT_EQ(short_name("Json::operator char const*() const"), "Json::operator char const*");
  EXPECT_EQ(short_name("A::operator unsigned int()"), "A::operator unsigned int");
  EXPECT_EQ(short_name("B::operator std::string const&()"), "B::operator std::string const&");
  EXPECT_EQ(short_name("operator\"\" _MiB(unsigned long long)"), "operator\"\" _MiB");
  EXPECT_EQ(short_name("my_operator f<int>(int)"), "f<int>");
  EXPECT_EQ(short_name("int (&arr<int>(int)) [3]"), "arr<int>");
  EXPECT_EQ(short_name("void (*Sig<int>::raw<double>(double))(int)"), "Sig<int>::raw<double>");
  EXPECT_EQ(short_name("main.(*Server).Handle"), "main.(*Server).Handle");
  EXPECT_EQ(short_name("main.(*List[go.shape.int]).Push"), "main.(*List[go.shape.int]).Push");
  EXPECT_EQ(short_name("array_list.ArrayListAligned(u8,null).append"),
            "array_list.ArrayListAligned(u8,null).append");
  EXPECT_EQ(short_name("each(void (*)(int), char)"), "each");
  EXPECT_EQ(short_name(""), "");
}

TEST(function_name, plain_allocation) {
  for (const char* name :
       {"operator new(unsigned long)", "operator new[](unsigned long, std::nothrow_t const&)", "malloc",
        "posix_memalign", "node::operator new(unsigned long)"}) {
    EXPECT_TRUE(is_plain_allocation(name)) << name;
  }
  for (const char* name : {"main", "my_malloc", "", "std::vector<int>::reserve(unsigned long)"}) {
    EXPECT_FALSE(is_plain_allocation(name)) << name;
  }
}

TEST(function_name, plain) {
  EXPECT_EQ(plain_name("void std::vector<int, std::allocator<int> >::push_back(int const&)"),
            "std::vector::push_back");
  EXPECT_EQ(plain_name("order_book::insert(order&&)"), "order_book::insert");
  EXPECT_EQ(plain_name("operator new(unsigned long)"), "operator new");
  EXPECT_EQ(plain_name("(anonymous namespace)::make(int)"), "(anonymous namespace)::make");
  EXPECT_EQ(plain_name("main"), "main");
  EXPECT_EQ(plain_name("a::b& a::b::operator->()"), "a::b::operator->");
  EXPECT_EQ(plain_name("void handler::operator()(request const&) const"), "handler::operator()");
  EXPECT_EQ(plain_name("bool operator< <int>(a<int> const&, a<int> const&)"), "operator<");
}

}  // namespace
}  // namespace tarn::profiler
