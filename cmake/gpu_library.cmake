# SPDX-License-Identifier: MIT
# liblathe_gpu: the GPU target as a library that `lathe`, liblathe and liblathe_ort open when they need
# it. It has no code of theirs: gpu_symbols.cmake lists the functions that it takes of them.
add_library(lathe_gpu_memory OBJECT src/targets/sim/memory.cpp)  # of the driver `host`
target_link_libraries(lathe_gpu_memory PRIVATE lathe_options)
lathe_use_pch(lathe_gpu_memory)
set(objects $<TARGET_OBJECTS:lathe_gpu> $<TARGET_OBJECTS:lathe_gpu_memory>)
set(imports ${CMAKE_BINARY_DIR}/generated/gpu_imports.cpp)
set(exports ${CMAKE_BINARY_DIR}/generated/gpu_exports.cpp)
add_custom_command(OUTPUT ${imports} ${exports}
  COMMAND ${CMAKE_COMMAND} -DNM=${CMAKE_NM} "-DOBJECTS=$<JOIN:${objects},|>" -DIMPORTS=${imports}
    -DEXPORTS=${exports} -P ${PROJECT_SOURCE_DIR}/cmake/gpu_symbols.cmake
  DEPENDS lathe_gpu lathe_gpu_memory ${objects} ${PROJECT_SOURCE_DIR}/cmake/gpu_symbols.cmake
  COMMENT "Listing what the GPU target calls" VERBATIM)
add_custom_target(lathe_gpu_symbols DEPENDS ${imports} ${exports})
add_library(lathe_gpu_host OBJECT ${exports})
add_library(liblathe_gpu MODULE ${imports} src/targets/gpu/exports.cpp ${objects})
foreach(target lathe_gpu_host liblathe_gpu)
  add_dependencies(${target} lathe_gpu_symbols)
  target_include_directories(${target} PRIVATE ${CMAKE_BINARY_DIR}/generated)
  target_link_libraries(${target} PRIVATE lathe_options)
  lathe_use_pch(${target})
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
endforeach()
set_target_properties(liblathe_gpu PROPERTIES OUTPUT_NAME lathe_gpu)
# Threads that compile outlive their users. Its relocations are repeated when it is opened.
target_link_options(liblathe_gpu PRIVATE LINKER:-z,nodelete,-z,norelro
  LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/liblathe_gpu.map
  $<$<CXX_COMPILER_ID:Clang>:LINKER:--icf=safe,--gc-sections,-O2>
  $<$<CONFIG:Release>:LINKER:--strip-all>)
