# SPDX-License-Identifier: MIT
# tarn_product(TARGET INSTALL-ARGUMENT…): installs TARGET and makes it a part of tarn_products, the target that `./dev build`
# builds. Every target that is installed goes through here: what cmake --install copies has then been built.
add_custom_target(tarn_products)

function(tarn_product target)
  install(TARGETS ${target} ${ARGN})
  add_dependencies(tarn_products ${target})
endfunction()
