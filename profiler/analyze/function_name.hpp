// SPDX-License-Identifier: MIT
// function_name: information from a function's name: its readable form, the type that it constructs, the type that
// it allocates. Pure functions of text; any thread.
#pragma once

#include <string>
#include <string_view>

namespace tarn::profiler {

// The demangled name, of C++ and of Rust; a name that is not mangled is returned unchanged.
std::string demangled(const char* name);

// Whether the source file belongs to the standard library of C++ or of Rust, or to Boost.
bool is_library_source(std::string_view file);
// Whether the function is one of Rust's standard library: "<alloc::vec::Vec<u8> as …>::clone", "core::ops::…".
bool is_rust_library(std::string_view function);

// "book::order::order(int)" -> "book::order". Empty: the function is no constructor.
std::string constructed_type(std::string_view function);

// The element type of a function whose only purpose is to allocate it: members `allocate` of the standard
// libraries' allocators, make_unique<T>, and the members of basic_string<T> that are compiled into the library.
// Empty: the function is none of these.
std::string allocated_type(std::string_view function);

// Whether the unqualified name is that of an allocator's function, such as `allocate`.
bool is_allocate(std::string_view function);

// Of a class template's member: "std::vector" and "order" of "std::vector<order, ...>::push_back(order&&)". Empty:
// the function is no member of a class template.
struct class_template {
  std::string name;
  std::string first_argument;
};
class_template class_template_of(std::string_view function);

// Without return type, template arguments and parameters: "std::vector::push_back".
std::string plain_name(std::string_view function);

// The shortened name: without parameters, and "<…>" for long template arguments.
std::string short_name(std::string_view function);

// Whether the function only returns untyped memory: operator new, malloc and the like.
bool is_plain_allocation(std::string_view function);

}  // namespace tarn::profiler
