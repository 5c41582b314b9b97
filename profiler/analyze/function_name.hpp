// SPDX-License-Identifier: MIT
// function_name: what a function's name tells: itself in readable form, the type that it constructs, the type that it
// allocates. Pure functions of text; any thread.
#pragma once

#include <string>
#include <string_view>

namespace tarn::profiler {

// The name as in the source, or itself where it is no mangled one.
std::string demangled(const char* name);

// "book::order::order(int)" -> "book::order". Empty: no constructor.
std::string constructed_type(std::string_view function);

// The element type of a function whose only purpose is to get memory for it: members `allocate` of the standard
// libraries' allocators, make_unique<T>, and those members of basic_string<T> that are compiled into the library. Empty: it
// is none of these.
std::string allocated_type(std::string_view function);

// Whether its own name is that of an allocator's function, as `allocate`.
bool is_allocate(std::string_view function);

// Of a class template's member: "std::vector" and "order" of "std::vector<order, ...>::push_back(order&&)". Empty: it is none.
struct class_template {
  std::string name;
  std::string first_argument;
};
class_template class_template_of(std::string_view function);

// Without return type, template arguments and parameters: "std::vector::push_back".
std::string plain_name(std::string_view function);

// For where there is little room: without parameters, and "<…>" for template arguments that are long.
std::string short_name(std::string_view function);

// Whether it only hands on memory without a type: operator new, malloc and their like.
bool is_plain_allocation(std::string_view function);

}  // namespace tarn::profiler
