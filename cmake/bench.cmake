# SPDX-License-Identifier: MIT
# Benchmarks: one program per bench/*.cpp; bench_kernels, which compares with oneDNN in processes of
# their own: version 2 of Debian, version 3 of PyPI (scripts/venv.sh), each where it is there;
# bench_busy_core, made of the same parts; bench_decoder, which bench/llm compares with other engines; bench_peak of bench/models.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*.cpp)
foreach(source ${sources})
  cmake_path(GET source STEM name)
  lathe_program(bench_${name} bench ${source})
  target_link_libraries(bench_${name} PRIVATE benchmark::benchmark benchmark::benchmark_main)
endforeach()

if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  return()
endif()
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/kernels/*.cpp)
list(FILTER sources EXCLUDE REGEX "/(main|busy_core)\\.cpp$")
add_library(bench_kernels_parts OBJECT ${sources})
target_link_libraries(bench_kernels_parts PRIVATE lathe_options)
lathe_use_pch(bench_kernels_parts)
lathe_program(bench_kernels bin ${PROJECT_SOURCE_DIR}/bench/kernels/main.cpp
  $<TARGET_OBJECTS:bench_kernels_parts>)
target_link_libraries(bench_kernels PRIVATE benchmark::benchmark)
lathe_program(bench_busy_core bench ${PROJECT_SOURCE_DIR}/bench/kernels/busy_core.cpp
  $<TARGET_OBJECTS:bench_kernels_parts>)

lathe_program(bench_decoder bin ${PROJECT_SOURCE_DIR}/bench/llm/worker.cpp
  ${PROJECT_SOURCE_DIR}/bench/kernels/peak.cpp)
lathe_program(bench_peak bench ${PROJECT_SOURCE_DIR}/bench/models/peak.cpp
  ${PROJECT_SOURCE_DIR}/bench/kernels/peak.cpp)

file(GLOB peer_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/kernels/onednn/*.cpp)
function(lathe_onednn name include library)
  if(include AND library)
    add_executable(${name} ${peer_sources} ${PROJECT_SOURCE_DIR}/bench/kernels/problem.cpp)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
    # -I precedes the system folder, which may contain the other version's headers.
    target_compile_options(${name} PRIVATE $<$<NOT:$<STREQUAL:${include},/usr/include>>:-I${include}>
      -Wall -Wextra)
    target_link_libraries(${name} PRIVATE ${library})
  endif()
endfunction()
find_path(LATHE_ONEDNN2_INCLUDE oneapi/dnnl/dnnl.hpp PATHS /usr/include NO_DEFAULT_PATH)
find_library(LATHE_ONEDNN2 NAMES libdnnl.so.2)
lathe_onednn(bench_onednn2 "${LATHE_ONEDNN2_INCLUDE}" "${LATHE_ONEDNN2}")
set(venv ${PROJECT_SOURCE_DIR}/build/venv)
find_path(LATHE_ONEDNN3_INCLUDE oneapi/dnnl/dnnl.hpp PATHS ${venv}/include NO_DEFAULT_PATH)
find_library(LATHE_ONEDNN3 NAMES libdnnl.so.3 PATHS ${venv}/lib NO_DEFAULT_PATH)
lathe_onednn(bench_onednn3 "${LATHE_ONEDNN3_INCLUDE}" "${LATHE_ONEDNN3}")
