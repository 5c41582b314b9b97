// SPDX-License-Identifier: MIT
#include "profiler/analyze/function_name.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#ifdef TARN_HAS_LIBIBERTY
// libiberty's, of which not every system has the header.
extern "C" int rust_demangle_callback(const char* name, int options,
                                      void (*take)(const char* part, std::size_t bytes, void* into),
                                      void* into);
#endif

namespace tarn::profiler {

namespace {

constexpr auto npos = std::string_view::npos;
constexpr std::size_t most_name_bytes =
    65536;  // longer ones are hardly a program's own, and not read by anybody

bool is_name_character(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '_' || letter == '$';
}

// Whether the characters before `at` are "operator", so that < and > are part of the operator's name.
bool is_operator(std::string_view text, std::size_t at) {
  std::size_t begin = at;
  while (begin > 0 && (text[begin - 1] == '<' || text[begin - 1] == '>' || text[begin - 1] == '-' ||
                       text[begin - 1] == '=')) {
    --begin;
  }
  return text.substr(0, begin).ends_with("operator");
}

// Calls visit(position) for each character outside of all brackets until it returns true; that position, or npos.
template <class Visit>
std::size_t find_outside(std::string_view text, Visit visit) {
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    const bool angle = (letter == '<' || letter == '>') && is_operator(text, at);
    if (depth == 0 && visit(at)) return at;
    if (!angle && (letter == '<' || letter == '(' || letter == '[' || letter == '{')) ++depth;
    if (!angle && depth > 0 && (letter == '>' || letter == ')' || letter == ']' || letter == '}')) --depth;
  }
  return npos;
}

// The position after the bracket that closes the one at `open`; npos: none.
std::size_t behind_bracket(std::string_view text, std::size_t open) {
  int depth = 0;
  for (std::size_t at = open; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter == '<' || letter == '(' || letter == '[' || letter == '{') ++depth;
    if (letter == '>' || letter == ')' || letter == ']' || letter == '}') {
      if (letter == '>' && text[at - 1] == '-') continue;  // an arrow
      if (--depth == 0) return at + 1;
    }
  }
  return npos;
}

// Of a function that returns a pointer to a function, or a reference to an array, what stands within that type:
// "void (*a::b(int))(char)" -> "a::b(int)"; of any other, all.
std::string_view declared_part(std::string_view function) {
  const std::size_t open = find_outside(function, [&](std::size_t at) {
    return at > 0 && function[at - 1] == ' ' &&
           (function.substr(at).starts_with("(*") || function.substr(at).starts_with("(&"));
  });
  const std::size_t behind = open != npos ? behind_bracket(function, open) : npos;
  if (behind == npos) return function;
  std::string_view inside = function.substr(open + 1, behind - open - 2);
  inside.remove_prefix(std::min(inside.find_first_not_of("*&"), inside.size()));
  return inside;
}

// The name without parameters and what follows them: "a::b<c>::d". The parameters are the last brackets.
// "(anonymous namespace)" and "operator()" are names; so are brackets behind which a nested name follows:
// "a(int)::{lambda()#1}", Go's "main.(*server).handle".
std::string_view without_parameters(std::string_view function) {
  function = declared_part(function);
  std::size_t end = npos;
  find_outside(function, [&](std::size_t at) {
    if (function[at] != '(' || function.substr(0, at).ends_with("operator")) return false;
    const std::size_t behind = behind_bracket(function, at);
    if (behind == npos ||
        !(function.substr(behind).starts_with("::") || function.substr(behind).starts_with('.')))
      end = at;
    return false;
  });
  return end == 0 ? function : function.substr(0, end);
}

// The beginning of the last name after a "::" outside of brackets; 0: there is no "::".
std::size_t last_name(std::string_view qualified) {
  std::size_t begin = 0;
  find_outside(qualified, [&](std::size_t at) {
    if (qualified.substr(at).starts_with("::")) begin = at + 2;
    return false;
  });
  return begin;
}

// "allocate<int>[abi:cxx11]" -> "allocate"
std::string_view bare(std::string_view name) {
  std::size_t end = 0;
  while (end < name.size() && is_name_character(name[end])) ++end;
  return name.substr(0, end);
}

// Removes the return type, which precedes the names of template functions ("void a::b<c>"): everything up to the
// last blank outside of brackets; an operator's name may have blanks ("operator unsigned int").
std::string_view without_return_type(std::string_view qualified) {
  constexpr std::string_view word = "operator";
  std::size_t begin = 0;
  find_outside(qualified, [&](std::size_t at) {
    if (qualified[at] == ' ') begin = at + 1;
    const std::size_t behind = at + word.size();
    return qualified.substr(at).starts_with(word) && (at == 0 || !is_name_character(qualified[at - 1])) &&
           (behind == qualified.size() || !is_name_character(qualified[behind]));
  });
  return qualified.substr(begin);
}

std::string_view first_argument(std::string_view arguments) {
  const std::size_t end = find_outside(arguments, [&](std::size_t at) { return arguments[at] == ','; });
  return arguments.substr(0, end);
}

std::string trimmed(std::string_view text) {
  while (text.ends_with(' ')) text.remove_suffix(1);
  while (text.starts_with(' ')) text.remove_prefix(1);
  return std::string(text);
}

// The first template argument after `prefix`, with which the name must begin: T of "std::allocator<T>...".
std::string argument_behind(std::string_view name, std::string_view prefix, std::string_view& rest) {
  if (!name.starts_with(prefix)) return {};
  const std::size_t open = prefix.size() - 1;
  const std::size_t end = behind_bracket(name, open);
  if (end == npos) return {};
  rest = name.substr(end);
  return trimmed(first_argument(name.substr(open + 1, end - open - 2)));
}

// T of std::allocator_traits<std::allocator<T> >.
std::string unwrapped_allocator(const std::string& allocator) {
  for (const std::string_view prefix :
       {"std::allocator<", "std::__1::allocator<", "std::__ndk1::allocator<", "std::__cxx1998::allocator<"}) {
    std::string_view rest;
    std::string type = argument_behind(allocator, prefix, rest);
    if (!type.empty()) return type;
  }
  return {};
}

#ifdef TARN_HAS_LIBIBERTY
struct rust_name {
  std::string text;
  std::jmp_buf too_long;
};

// A short name may stand for one of any length. The demangler keeps nothing, so it can be left.
void take_rust(const char* part, std::size_t bytes, void* into) {
  auto& name = *static_cast<rust_name*>(into);
  if (name.text.size() + bytes > most_name_bytes) std::longjmp(name.too_long, 1);  // NOLINT(cert-err52-cpp)
  name.text.append(part, bytes);
}

// Empty: it is none of Rust's.
std::string rust_demangled(const char* name) {
  rust_name readable;
  if (setjmp(readable.too_long) != 0) return {};  // NOLINT(cert-err52-cpp)
  return rust_demangle_callback(name, 0, take_rust, &readable) != 0 ? readable.text : std::string();
}
#else
std::string rust_demangled(const char*) { return {}; }
#endif

// The type in "<T as Trait>::f" and "<T>::f", without what refers to it; of a type without a path, the trait.
std::string_view type_of_impl(std::string_view function) {
  const std::size_t end = behind_bracket(function, 0);
  if (end == npos) return {};
  const std::string_view inside = function.substr(1, end - 2);
  const std::size_t as =
      find_outside(inside, [&](std::size_t at) { return inside.substr(at).starts_with(" as "); });
  std::string_view type = inside.substr(0, as);
  for (bool more = true; more;) {
    more = false;
    for (const std::string_view lead : {"&", "*", "mut ", "const ", "dyn ", "[", "(", "<"}) {
      if (!type.starts_with(lead)) continue;
      type.remove_prefix(lead.size());
      more = true;
    }
  }
  return type.find("::") == npos && as != npos ? inside.substr(as + 4) : type;
}

}  // namespace

bool is_library_source(std::string_view file) {
  for (const char* part : {"/include/c++/", "/include/boost/", "/rustlib/src/rust/library/", "/rust/deps/"})
    if (file.find(part) != npos) return true;
  return file.starts_with("/rustc/") && file.find("/library/") != npos;
}

bool is_rust_library(std::string_view function) {
  if (function.find('(') != npos && !function.starts_with('<')) return false;  // C++, or an operator
  if (function.starts_with('<')) function = type_of_impl(function);
  for (const char* crate : {"alloc::", "core::", "std::", "hashbrown::"})
    if (function.starts_with(crate)) return true;
  return false;
}

std::string demangled(const char* name) {
  if (std::strlen(name) > most_name_bytes) return name;
  // Rust's older names are also names of C++, with a hash at the end.
  if (name[0] == '_' && (name[1] == 'R' || (name[1] == 'Z' && name[2] == 'N'))) {
    std::string readable = rust_demangled(name);
    if (!readable.empty()) return readable;
  }
  // The compiler's clones are demangled, too: "_Zxx.isra.0" becomes "xx [clone .isra.0]".
  if (name[0] != '_' || (name[1] != 'Z' && name[1] != '_')) return name;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> readable(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                        std::free);
  return status == 0 && readable ? readable.get() : name;
}

std::string constructed_type(std::string_view function) {
  const std::string_view qualified = without_parameters(function);
  const std::size_t name = last_name(qualified);
  if (name < 3 || is_rust_library(function)) return {};  // "alloc::alloc::alloc"
  const std::string_view type = qualified.substr(0, name - 2);
  const std::string_view type_name = bare(type.substr(last_name(type)));
  const std::string_view own = bare(qualified.substr(name));
  return !own.empty() && own == type_name ? std::string(type) : std::string();
}

std::string allocated_type(std::string_view function) {
  const std::string_view name = without_return_type(without_parameters(function));
  std::string_view rest;
  for (const std::string_view prefix :
       {"std::__new_allocator<", "__gnu_cxx::new_allocator<", "std::allocator<", "std::__1::allocator<",
        "std::__ndk1::allocator<", "__gnu_cxx::__mt_alloc<", "__gnu_cxx::malloc_allocator<"}) {
    std::string type = argument_behind(name, prefix, rest);
    if (!type.empty() && rest.starts_with("::") && bare(rest.substr(2)) == "allocate") return type;
  }
  std::string element = argument_behind(name, "std::_Vector_base<", rest);
  if (!element.empty() && rest.starts_with("::") && bare(rest.substr(2)) == "_M_allocate") return element;
  for (const std::string_view prefix : {"std::allocator_traits<", "std::__1::allocator_traits<"}) {
    const std::string allocator = argument_behind(name, prefix, rest);
    if (!allocator.empty() && rest.starts_with("::") && bare(rest.substr(2)) == "allocate") {
      return unwrapped_allocator(allocator);
    }
  }
  for (const std::string_view prefix : {"std::make_unique<", "std::make_unique_for_overwrite<",
                                        "std::__1::make_unique<", "std::make_unique[abi:v160006]<"}) {
    std::string type = argument_behind(name, prefix, rest);
    if (type.ends_with("[]")) type = trimmed(std::string_view(type).substr(0, type.size() - 2));
    if (!type.empty() && rest.empty()) return type;
  }
  for (const std::string_view prefix :
       {"std::__cxx11::basic_string<", "std::basic_string<", "std::__1::basic_string<"}) {
    std::string type = argument_behind(name, prefix, rest);
    if (!type.empty() && rest.starts_with("::")) return type;
  }
  return {};
}

bool is_allocate(std::string_view function) {
  const std::string_view name = without_parameters(function);
  const std::string_view own = bare(name.substr(last_name(name)));
  return own == "allocate" || own == "_M_allocate";
}

class_template class_template_of(std::string_view function) {
  const std::string_view qualified = without_return_type(without_parameters(function));
  const std::size_t name = last_name(qualified);
  if (name < 3) return {};
  const std::string_view type = qualified.substr(0, name - 2);
  const std::size_t own = last_name(type);
  const std::size_t open = type.find('<', own);
  if (open == npos || !type.ends_with('>')) return {};
  return {std::string(type.substr(0, open)),
          trimmed(first_argument(type.substr(open + 1, type.size() - open - 2)))};
}

std::string short_name(std::string_view function) {
  constexpr std::size_t longest_arguments = 24;
  std::string_view name = without_return_type(without_parameters(function));
  std::string result;
  if (const std::string_view type = name.starts_with('<') ? type_of_impl(name) : std::string_view();
      !type.empty()) {
    result = short_name(type);
    name.remove_prefix(behind_bracket(name, 0));
  }
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = name[at] == '<' && !is_operator(name, at) ? behind_bracket(name, at) : npos;
    if (end != npos && end - at > longest_arguments) {
      result += "<…>";
      at = end;
    } else {
      result += name[at++];
    }
  }
  return result;
}

bool is_plain_allocation(std::string_view function) {
  constexpr std::array names = {"malloc",
                                "calloc",
                                "realloc",
                                "reallocarray",
                                "memalign",
                                "aligned_alloc",
                                "valloc",
                                "pvalloc",
                                "__libc_malloc",
                                "__libc_calloc",
                                "posix_memalign",
                                "std::__libcpp_operator_new",
                                "std::__1::__libcpp_allocate"};
  if (function.find("operator new") != npos) return true;  // a class's own too
  const std::string_view name = without_parameters(function);
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string plain_name(std::string_view function) {
  constexpr std::string_view operator_word = "operator";
  std::string name;
  int depth = 0;
  for (std::size_t at = 0; at < function.size(); ++at) {
    const char letter = function[at];
    if (depth == 0 && function.substr(at).starts_with(operator_word)) {
      // The operator's < and > are no brackets.
      const std::size_t begin = at;
      at += operator_word.size();
      if (function.substr(at).starts_with("()")) at += 2;
      while (at < function.size() &&
             std::string_view("<>=-!+*/%^&|~,[]").find(function[at]) != std::string_view::npos)
        ++at;
      name += function.substr(begin, at - begin);
      --at;
      continue;
    }
    if (letter == '<') ++depth;
    if (depth == 0 && letter == '(' && !function.substr(at).starts_with("(anonymous namespace)")) break;
    if (depth == 0) name += letter;
    if (letter == '>') depth = std::max(0, depth - 1);
  }
  while (name.ends_with(' ')) name.pop_back();
  // The part before the last blank is a return type, except in "operator new" and in the anonymous namespace.
  const std::size_t from = std::min(name.find("operator"), name.find("(anonymous"));
  const std::size_t blank = name.rfind(' ', from == std::string::npos ? std::string::npos : from);
  if (blank != std::string::npos && (from == std::string::npos || blank < from)) name.erase(0, blank + 1);
  return name;
}

}  // namespace tarn::profiler
