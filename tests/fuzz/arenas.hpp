// SPDX-License-Identifier: MIT
// arenas: operations on an arena and on the thread's scratch arenas: small and large requests in any order, objects with
// destructors, markers in every state, what is taken back, the caller's buffer, moves. There are two: one of the plain
// and one of the checked pools (arenas.cpp is compiled for each), whichever the fuzzer is built for.
//
// Thread safety: none; any thread may call, one at a time.
#pragma once

#include <map>
#include <memory>

#include "model.hpp"

namespace tarn::fuzz {

using range_map = std::map<std::uintptr_t, std::uintptr_t>;

class arenas {
 public:
  arenas() = default;
  virtual ~arenas() = default;
  arenas(const arenas&) = delete;
  arenas& operator=(const arenas&) = delete;

  virtual void change(input& in) = 0;
  virtual void check() const = 0;
  virtual void empty() = 0;
};

std::unique_ptr<arenas> make_arenas(range_map& ranges);
std::unique_ptr<arenas> make_checked_arenas(range_map& ranges);

}  // namespace tarn::fuzz
