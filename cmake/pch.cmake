# SPDX-License-Identifier: MIT
# lathe_use_pch(target): compiles the target's sources with cmake/precompiled.h precompiled (clang only);
# lathe_use_test_pch(target): with tests/precompiled.h.
#
# CMake's own precompiled headers name absolute paths inside, which keeps ccache from sharing objects
# between checkouts. Here the header is passed by a relative path, and ccache hashes the .sum file
# beside it (the header's preprocessed text) in place of the precompiled bytes.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  function(lathe_use_pch target)
  endfunction()
  function(lathe_use_test_pch target)
  endfunction()
  return()
endif()

# Precompiles HEADER (named as an include) to pch/NAME.h.pch, with options: target NAME_pch_file.
function(lathe_precompile name header)
  set(pch ${CMAKE_BINARY_DIR}/pch/${name}.h.pch)
  # Compiled as a source, so that it gets the flags of all others. What it instantiates, no other
  # source has to instantiate again: that is where most of the time goes.
  file(WRITE ${CMAKE_BINARY_DIR}/pch/${name}.cpp.in "#include \"${header}\"\n")
  configure_file(${CMAKE_BINARY_DIR}/pch/${name}.cpp.in ${CMAKE_BINARY_DIR}/pch/${name}.cpp COPYONLY)
  add_library(${name}_pch OBJECT ${CMAKE_BINARY_DIR}/pch/${name}.cpp)
  target_link_libraries(${name}_pch PRIVATE lathe_options)
  target_include_directories(${name}_pch PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${name}_pch PRIVATE -xc++-header -Xclang -fno-pch-timestamp
    -fpch-instantiate-templates ${ARGN})
  set_target_properties(${name}_pch PROPERTIES CXX_COMPILER_LAUNCHER "")
  add_custom_command(OUTPUT ${pch} ${pch}.sum DEPENDS $<TARGET_OBJECTS:${name}_pch>
    COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_OBJECTS:${name}_pch> ${pch}
    COMMAND ${CMAKE_COMMAND} "-DCOMPILER=${CMAKE_CXX_COMPILER}" "-DTARGET=${CMAKE_CXX_COMPILER_TARGET}"
      -DSOURCES=${PROJECT_SOURCE_DIR} -DSOURCE=${CMAKE_BINARY_DIR}/pch/${name}.cpp -DSUM=${pch}.sum
      -DVERSION=${CMAKE_CXX_COMPILER_VERSION} -P ${PROJECT_SOURCE_DIR}/cmake/pch_sum.cmake
    VERBATIM)
  add_custom_target(${name}_pch_file DEPENDS ${pch})
endfunction()

# A precompiled header serves one level of optimisation: each is made for its first user.
function(lathe_use_pch target)
  set(name lathe)
  get_target_property(level ${target} LATHE_OPTIMISATION)
  if(level)
    set(name lathe${level})
    target_compile_options(${target} PRIVATE ${level})
  else()
    set(level)
  endif()
  if(NOT TARGET ${name}_pch)
    lathe_precompile(${name} cmake/precompiled.h ${level})
  endif()
  target_compile_options(${target} PRIVATE -include-pch pch/${name}.h.pch)
  add_dependencies(${target} ${name}_pch_file)
endfunction()
function(lathe_use_test_pch target)
  if(NOT TARGET tests_pch)
    lathe_precompile(tests tests/precompiled.h)
    target_link_libraries(tests_pch PRIVATE GTest::gtest)
  endif()
  target_compile_options(${target} PRIVATE -include-pch pch/tests.h.pch)
  add_dependencies(${target} tests_pch_file)
endfunction()
