# SPDX-License-Identifier: MIT
# The source archive lies beside this file (packaging/vcpkg/make_artefact puts both into one folder).
set(archive "${CMAKE_CURRENT_LIST_DIR}/tarn-${VERSION}.tar.gz")
if(NOT EXISTS "${archive}")
  message(FATAL_ERROR "${archive} is missing.\n"
    "packaging/vcpkg/make_artefact FOLDER makes it; then install with --overlay-ports=FOLDER/vcpkg-ports")
endif()
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${archive}")

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    -DTARN_DEVELOPER=OFF # the libraries; no command, tests or benchmarks
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/tarn)
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
