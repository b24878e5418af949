# SPDX-License-Identifier: MIT
# lathe_use_pch(target): compiles the target's sources with src/base/pch.h precompiled (clang only).
#
# CMake's own precompiled headers name absolute paths inside, which keeps ccache from sharing objects
# between checkouts. Here the header is passed by a relative path, and ccache hashes the .sum file
# beside it (the header's preprocessed text) in place of the precompiled bytes.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  function(lathe_use_pch target)
  endfunction()
  return()
endif()

set(LATHE_PCH_HEADER ${PROJECT_SOURCE_DIR}/src/base/pch.h)
set(LATHE_PCH ${CMAKE_BINARY_DIR}/pch/pch.h.pch)

set(target_flag)
if(CMAKE_CXX_COMPILER_TARGET)
  set(target_flag --target=${CMAKE_CXX_COMPILER_TARGET})
endif()
execute_process(COMMAND ${CMAKE_CXX_COMPILER} ${target_flag} -std=c++20 -x c++ -w -E -P
  ${LATHE_PCH_HEADER} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
string(SHA256 sum "${text}${CMAKE_CXX_COMPILER_VERSION}")
file(WRITE ${LATHE_PCH}.sum ${sum})
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${LATHE_PCH_HEADER})

# Compiled as a source, so that it gets the flags of all others.
file(WRITE ${CMAKE_BINARY_DIR}/pch/pch.cpp.in "#include \"base/pch.h\"\n")
configure_file(${CMAKE_BINARY_DIR}/pch/pch.cpp.in ${CMAKE_BINARY_DIR}/pch/pch.cpp COPYONLY)
add_library(lathe_pch OBJECT ${CMAKE_BINARY_DIR}/pch/pch.cpp)
target_link_libraries(lathe_pch PRIVATE lathe_options)
target_compile_options(lathe_pch PRIVATE -xc++-header -Xclang -fno-pch-timestamp)
set_target_properties(lathe_pch PROPERTIES CXX_COMPILER_LAUNCHER "")
add_custom_command(OUTPUT ${LATHE_PCH} DEPENDS $<TARGET_OBJECTS:lathe_pch>
  COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_OBJECTS:lathe_pch> ${LATHE_PCH} VERBATIM)
add_custom_target(lathe_pch_file DEPENDS ${LATHE_PCH})

function(lathe_use_pch target)
  target_compile_options(${target} PRIVATE -include-pch pch/pch.h.pch)
  add_dependencies(${target} lathe_pch_file)
endfunction()
