# SPDX-License-Identifier: MIT
# The libraries of the command and the profiler: nlohmann_json::nlohmann_json, ZLIB::ZLIB, and the variables TARN_FMT,
# TARN_ZSTD_LIBRARY, TARN_DW_LIBRARY, TARN_ELF_LIBRARY and TARN_IBERTY_LIBRARY (may be missing). With TARN_GLIBC_FLOOR all of them become part of the command,
# since an older system has other versions of them.

if(TARN_GLIBC_FLOOR)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  set(TARN_FMT_HEADER_ONLY ON)
endif()
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
set(TARN_FMT fmt::fmt)
if(TARN_FMT_HEADER_ONLY)
  set(TARN_FMT fmt::fmt-header-only)
endif()
find_package(ZLIB REQUIRED)
find_library(TARN_ZSTD_LIBRARY zstd REQUIRED)
find_path(TARN_ZSTD_INCLUDE zstd.h REQUIRED)
find_library(TARN_DW_LIBRARY dw REQUIRED)
find_library(TARN_ELF_LIBRARY elf REQUIRED)
# An archive everywhere. Its demangler of Rust (GCC 11 and newer) may be linked into any program; without it names of Rust
# stay as they are.
find_library(TARN_IBERTY_LIBRARY NAMES libiberty.a)
if(TARN_GLIBC_FLOOR) # what the archive of libdw leaves open
  foreach(name bz2 lzma)
    find_library(TARN_${name}_LIBRARY ${name} REQUIRED)
    list(APPEND TARN_ELF_LIBRARY ${TARN_${name}_LIBRARY})
  endforeach()
  # zlib by its path: as a target it would stand in the linker's line once, before libdw.
  list(APPEND TARN_ELF_LIBRARY ${TARN_ZSTD_LIBRARY} ${ZLIB_LIBRARIES})
endif()
