# SPDX-License-Identifier: MIT
# tarn_product(TARGET INSTALL-ARGUMENT…) installs TARGET and adds it to tarn_products, the target that `./dev build`
# builds. Without TARN_INSTALL it installs nothing. Every installed target goes through this function, so cmake --install finds everything built.
add_custom_target(tarn_products)

function(tarn_product target)
  if(TARN_INSTALL)
    install(TARGETS ${target} ${ARGN})
  endif()
  add_dependencies(tarn_products ${target})
endfunction()
