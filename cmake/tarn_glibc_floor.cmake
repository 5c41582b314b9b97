# SPDX-License-Identifier: MIT
# TARN_GLIBC_FLOOR=2.31: everything that is linked takes of glibc only what version 2.31 had, so that it runs on systems
# with that glibc or a newer one, whichever this system has. The objects are the same as without the option: only the
# libraries named libc, libm, libpthread and libdl on the linker's command line are others, made by glibc_floor/stubs.py.
# C++'s library becomes part of the command.
if(TARN_GLIBC_FLOOR)
  find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
  set(TARN_GLIBC_STUBS ${PROJECT_BINARY_DIR}/glibc-${TARN_GLIBC_FLOOR})
  execute_process(
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/glibc_floor/stubs.py
      ${TARN_GLIBC_FLOOR} ${TARN_GLIBC_STUBS} ${CMAKE_C_COMPILER}
    RESULT_VARIABLE status ERROR_VARIABLE problem)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "tarn: TARN_GLIBC_FLOOR=${TARN_GLIBC_FLOOR}: ${problem}")
  endif()
  add_link_options(-L${TARN_GLIBC_STUBS} -static-libstdc++ LINKER:--allow-shlib-undefined)
  # An older glibc has functions of threads and of dlopen in libraries of their own; newer ones have empty libraries of
  # these names.
  foreach(language C CXX)
    string(APPEND CMAKE_${language}_STANDARD_LIBRARIES
      " -Wl,--push-state,--no-as-needed -lpthread -ldl -Wl,--pop-state")
  endforeach()
endif()
