# SPDX-License-Identifier: MIT
# What cmake --install installs: headers, libraries, the CMake package (tarn::malloc, tarn::tarn, …) and pkg-config
# files.
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY TARN_LIBRARIES)
if(TARN_INSTALL AND NOT TARN_SANITIZE)
  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tarn)
  foreach(library IN LISTS libraries)
    tarn_product(${library} EXPORT tarn_targets
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endforeach()
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tarn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT tarn_targets NAMESPACE tarn:: DESTINATION ${package_dir})

  # For LD_LIBRARY_PATH: programs that are linked with jemalloc ask for libjemalloc.so.2. The link has a folder of its own,
  # so that it takes the place of jemalloc only where somebody names that folder.
  set(link_dir ${CMAKE_INSTALL_LIBDIR}/tarn/jemalloc)
  file(RELATIVE_PATH tarn_libdir_from_link ${CMAKE_INSTALL_PREFIX}/${link_dir} ${CMAKE_INSTALL_FULL_LIBDIR})
  string(REGEX REPLACE "/$" "" tarn_libdir_from_link "${tarn_libdir_from_link}")
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/package)
  file(CREATE_LINK ${tarn_libdir_from_link}/libtarn-jemalloc.so.2 ${PROJECT_BINARY_DIR}/package/libjemalloc.so.2 SYMBOLIC)
  install(FILES ${PROJECT_BINARY_DIR}/package/libjemalloc.so.2 DESTINATION ${link_dir})

  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tarn-config.cmake.in
    ${PROJECT_BINARY_DIR}/package/tarn-config.cmake INSTALL_DESTINATION ${package_dir})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/tarn-config-version.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/package/tarn-config.cmake
    ${PROJECT_BINARY_DIR}/package/tarn-config-version.cmake DESTINATION ${package_dir})

  # A relative path, so that an installation can be moved and cmake --install --prefix works.
  file(RELATIVE_PATH tarn_prefix_from_pkgconfig
    ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  foreach(name tarn tarn-api tarn-jemalloc)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/package/${name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/package/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  endforeach()
endif()
