# SPDX-License-Identifier: MIT
# `cmake --install`: the program, liblathe, liblathe_gpu, the headers, the CMake package (lathe::lathe) and
# lathe.pc. `cpack` makes a Debian package of them.
include(GNUInstallDirs)
if(TARGET lathe)
  install(TARGETS lathe)
endif()
install(TARGETS liblathe_gpu LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
if(LATHE_CAPI)
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/lathe)
  set_target_properties(liblathe PROPERTIES EXPORT_NAME lathe)
  target_include_directories(liblathe INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS liblathe EXPORT lathe)
  install(DIRECTORY include/lathe TYPE INCLUDE FILES_MATCHING PATTERN *.h PATTERN *.hpp)
  install(EXPORT lathe NAMESPACE lathe:: FILE lathe-config.cmake DESTINATION ${package})
  include(CMakePackageConfigHelpers)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/lathe-config-version.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/lathe-config-version.cmake DESTINATION ${package})
  configure_file(cmake/lathe.pc.in lathe.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/lathe.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The Lathe authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "graph compiler and inference engine for ONNX models")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)  # runs ldconfig
include(CPack)
