# SPDX-License-Identifier: MIT
# Lines 1-9 of docs/reference/guarantees.md: the contract of all allocation functions. Lines 1 to 8 are checks of one program,
# tests/contract, which that folder also builds with the functions' other names.
file(GLOB sources CONFIGURE_DEPENDS ../contract/*.cpp)
add_executable(guarantee_contract ${sources})
tarn_guarantee_target(guarantee_contract)
target_compile_definitions(guarantee_contract PRIVATE CONTRACT_PRELOADED)
set_target_properties(guarantee_contract PROPERTIES OUTPUT_NAME contract)

set(tarn_contract_checks 01_names 01_ownership 02_alignment 03_alignment_errors 04_overflow 04_new_handler 05_zero_size
  06_errno 07_realloc 08_calloc 08_untouched)
foreach(check IN LISTS tarn_contract_checks)
  set(options "")
  if(check STREQUAL "07_realloc")
    set(options LONG)
  elseif(check STREQUAL "08_untouched")
    set(options SERIAL)
  endif()
  tarn_guarantee_test(${check} guarantee_contract ${check} ${options})
endforeach()

tarn_guarantee(07_page_tables SERIAL)
tarn_guarantee(09_model LONG)
