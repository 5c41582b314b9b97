# SPDX-License-Identifier: MIT
# TARN_SLOWNESS: how many times longer than on a real machine tests may take. TARN_SLOWNESS_ENV passes that number to
# the tests. tarn_limit(VARIABLE SECONDS) sets a test's time limit.
if(CMAKE_CROSSCOMPILING_EMULATOR)
  set(TARN_SLOWNESS 10)
  set(TARN_SLOWNESS_ENV GUARANTEE_SLOWNESS=${TARN_SLOWNESS})
else()
  set(TARN_SLOWNESS 1)
  set(TARN_SLOWNESS_ENV)
endif()

# The limit is for tests that hang; it does not judge speed. Under a sanitizer tests take several times as long.
function(tarn_limit variable seconds)
  math(EXPR limit "${seconds} * ${TARN_SLOWNESS}")
  if(TARN_SANITIZE)
    math(EXPR limit "${limit} * 4")
  endif()
  set(${variable} ${limit} PARENT_SCOPE)
endfunction()
