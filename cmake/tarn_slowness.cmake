# SPDX-License-Identifier: MIT
# How many times longer than on a real machine tests may take: TARN_SLOWNESS; and TARN_SLOWNESS_ENV, which tells them.
# tarn_limit(VARIABLE SECONDS) sets a test's limit of time.
if(CMAKE_CROSSCOMPILING_EMULATOR)
  set(TARN_SLOWNESS 10)
  set(TARN_SLOWNESS_ENV GUARANTEE_SLOWNESS=${TARN_SLOWNESS})
else()
  set(TARN_SLOWNESS 1)
  set(TARN_SLOWNESS_ENV)
endif()

# A limit ends what hangs; it does not judge speed. A sanitizer alone takes several times as long.
function(tarn_limit variable seconds)
  math(EXPR limit "${seconds} * ${TARN_SLOWNESS}")
  if(TARN_SANITIZE)
    math(EXPR limit "${limit} * 4")
  endif()
  set(${variable} ${limit} PARENT_SCOPE)
endfunction()
