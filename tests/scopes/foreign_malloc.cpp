// SPDX-License-Identifier: MIT
// Two scopes in a program whose malloc is not tarn's, unless libtarn is preloaded: what is written to standard error is the
// test (CMakeLists.txt).
#include <tarn/scope.hpp>

#include <cstdio>

int main() {
  for (const char* name : {"first", "second"}) {
    tarn::scope scope{name};
    const auto in = scope.enter();
  }
  std::puts("both scopes have ended");
}
