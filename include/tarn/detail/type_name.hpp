// SPDX-License-Identifier: MIT
// type_name<T>(): a type's name as the compiler writes it, without run-time type information. Evaluated at compile
// time.
#pragma once

#include "tarn/detail/abi.hpp"

#include <string_view>

namespace tarn {
TARN_NAMESPACE_BEGIN
namespace detail {

template <class T>
constexpr std::string_view function_name() {
  return __PRETTY_FUNCTION__;
}

// "constexpr std::string_view tarn::detail::function_name() [with T = int; std::string_view = …]" (GCC),
// "std::string_view tarn::detail::function_name() [T = int]" (Clang): the lengths of prefix and suffix are measured
// with void, a type of known name.
inline constexpr std::size_t name_prefix = function_name<void>().find("void]") != std::string_view::npos
                                               ? function_name<void>().rfind("void]")
                                               : function_name<void>().find("void;");
inline constexpr std::size_t name_suffix = function_name<void>().size() - name_prefix - 4;

template <class T>
constexpr std::string_view type_name() {
  constexpr std::string_view whole = function_name<T>();
  return whole.substr(name_prefix, whole.size() - name_prefix - name_suffix);
}

}  // namespace detail
TARN_NAMESPACE_END
}  // namespace tarn
