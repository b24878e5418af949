# SPDX-License-Identifier: MIT
# Objects of src/targets/cpu/kernels, and kernels_tests over them; x86-64 only. A source whose name
# ends in an instruction set is compiled for it. No precompiled header: it would have to be compiled
# for each set, and its inline functions would come along.
set(isa_avx2 -mavx2 -mfma -mf16c -mbmi -mbmi2)
set(isa_avx2_vnni ${isa_avx2} -mavxvnni)
set(isa_avx512 ${isa_avx2} -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl -mprfchw
  -mprefer-vector-width=512)
set(isa_avx512_vnni ${isa_avx512} -mavx512vnni -mavx512bf16)
set(isa_amx ${isa_avx512_vnni} -mavx512vbmi -mprfchw -mamx-tile -mamx-int8 -mamx-bf16)

# Instrumented vector code takes minutes to compile and tens of times as long to run: guarded buffers
# watch over these units instead (tests/kernels/support).
set(isa_plain)
if(LATHE_SANITIZE)
  set(isa_plain -fno-sanitize=all -O2)
endif()

file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/targets/cpu/kernels/*.cpp)
add_library(lathe_cpu_kernels OBJECT ${sources})
target_link_libraries(lathe_cpu_kernels PRIVATE lathe_options)
foreach(source ${sources})
  foreach(isa avx2 avx2_vnni avx512 avx512_vnni amx)
    if(source MATCHES "_${isa}\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${isa_${isa}};${isa_plain}")
    endif()
  endforeach()
endforeach()
list(APPEND core_objects $<TARGET_OBJECTS:lathe_cpu_kernels>)

# tests/kernels: a program of its own over base, tensor and the kernels, quick to link.
function(lathe_kernels_tests)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/kernels/*.cpp)
  lathe_batch(sources kernels_tests ${sources})
  add_executable(kernels_tests ${sources} $<TARGET_OBJECTS:lathe_base>
    $<TARGET_OBJECTS:lathe_tensor> $<TARGET_OBJECTS:lathe_cpu_kernels>)
  set_target_properties(kernels_tests PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(kernels_tests PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(kernels_tests PRIVATE lathe_options GTest::gtest GTest::gtest_main)
  lathe_use_test_pch(kernels_tests)
  lathe_test(kernels kernels_tests --gtest_brief=1)
  if(LATHE_SANITIZE)  # plain loops under instruments: a part of the random cases
    set_property(TEST kernels APPEND PROPERTY ENVIRONMENT TEST_CASES=0.2)
  endif()
  # On a processor with AVX2 alone, emulated: what every other machine leaves out. Some cases of
  # every kind of kernel; `make test-haswell` runs all.
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    lathe_test(kernels_haswell scripts/haswell.sh $<TARGET_FILE:kernels_tests> --gtest_brief=1
      --gtest_filter=-Attention.*SameBits*:Attention.*NaN*:WeightOnly.RowsHave*:Winograd.*InEvery*:Recurrent.HasThe*:Matmul.RowsHave*)
    set_property(TEST kernels_haswell APPEND PROPERTY ENVIRONMENT TEST_CASES=0.05)
  endif()
endfunction()
