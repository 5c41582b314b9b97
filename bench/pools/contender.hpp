// SPDX-License-Identifier: MIT
// contender.hpp: how a scene's program names its contenders and runs the one that is asked for.
//
// A contender is a type with `name` and one template of its own: of<T>, an object with T* take() and void give(T*) for
// memory of one T; or, for containers, allocator<T> with a source to make it from. Contenders of libraries that were
// not found when the build was configured are missing from the lists; `PROGRAM --list` prints who is there.
#pragma once

#include <string_view>
#include <type_traits>

#include "../workloads/support.hpp"

namespace bench {

template <class... Contenders>
struct contender_list {};

template <class... Lists>
struct joined;
template <class... Contenders>
struct joined<contender_list<Contenders...>> {
  using type = contender_list<Contenders...>;
};
template <class... First, class... Second, class... Rest>
struct joined<contender_list<First...>, contender_list<Second...>, Rest...>
    : joined<contender_list<First..., Second...>, Rest...> {};
template <class... Lists>
using join = typename joined<Lists...>::type;

// What every scene's command line begins with, and how much of the full work is asked for.
struct scene_arguments {
  std::string_view contender;
  char** rest = nullptr;  // the scene's own
  unsigned scale = 1000;  // per mille; the last argument

  [[nodiscard]] std::size_t scaled(std::size_t full, std::size_t least) const {
    return std::max(full * scale / 1000, least);
  }
};

[[noreturn]] inline void refuse(const char* program, const char* own) {
  std::fprintf(stderr,
               "usage: %s CONTENDER %s SCALE   (SCALE in per mille of the full work)\n       %s --list\n",
               program, own, program);
  std::exit(2);
}

// Calls scene.operator()<Contender>(arguments) for the contender named by the first argument. `own` names the scene's
// own arguments, each by one word.
template <class... Contenders, class scene_type>
int run_scene(contender_list<Contenders...> /*list*/, int count, char** words, std::string_view own,
              scene_type scene) {
  if (count == 2 && std::string_view(words[1]) == "--list") {
    (std::puts(Contenders::name), ...);
    return 0;
  }
  const auto own_count = own.empty() ? 0 : 1 + std::count(own.begin(), own.end(), ' ');
  if (count != own_count + 3) refuse(words[0], own.data());
  scene_arguments arguments{words[1], words + 2, parse_number(words[count - 1], 1000, "SCALE", words[0])};
  const auto run_if_named = [&]<class Contender>() {
    if (arguments.contender != Contender::name) return false;
    scene.template operator()<Contender>(arguments);
    return true;
  };
  if ((run_if_named.template operator()<Contenders>() || ...)) return 0;
  std::fprintf(stderr, "%s: there is no contender \"%s\"; --list shows them\n", words[0], words[1]);
  return 2;
}

// The compiler must take the pointer for a new one, which somebody else may have written to: it can neither remove the
// work behind it nor keep a pool's state in registers.
template <class T>
inline void obscure(T*& pointer) {
  asm volatile("" : "+r"(pointer) : : "memory");
}

// What is pooled. Its constructor does nothing, so that no contender's time contains clearing it.
template <std::size_t Size>
struct object {
  object() {}  // NOLINT(modernize-use-equals-default): `= default` would let value-initialisation clear it
  unsigned char bytes[Size];
};

}  // namespace bench
