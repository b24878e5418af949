# SPDX-License-Identifier: MIT
# The objects of src/targets/cpu/kernels, and kernels_tests; x86-64 only. A source whose name ends in
# an instruction set is compiled for it, in an object library of that set.
set(isas avx2 avx2_vnni avx512 avx512_vnni avx512_bf16 amx)  # as in simd/isa.h
set(isa_avx2 -mavx2 -mfma -mf16c -mbmi -mbmi2)
set(isa_avx2_vnni ${isa_avx2} -mavxvnni)
set(isa_avx512 ${isa_avx2} -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl -mprfchw
  -mprefer-vector-width=512)
set(isa_avx512_vnni ${isa_avx512} -mavx512vnni)
set(isa_avx512_bf16 ${isa_avx512_vnni} -mavx512bf16)
set(isa_amx ${isa_avx512_bf16} -mavx512vbmi -mprfchw -mamx-tile -mamx-int8 -mamx-bf16)

# Instrumented vector code takes minutes to compile and tens of times as long to run: guarded buffers
# watch over these units instead (tests/kernels/support).
set(isa_plain)
if(LATHE_SANITIZE)
  set(isa_plain -fno-sanitize=all -O2)
endif()

# LATHE_ISA=host selects the best set of this processor, detected by the same code as at run time.
set(isa ${LATHE_ISA})
if(isa STREQUAL "host")
  if(NOT DEFINED LATHE_HOST_ISA)
    set(folder ${PROJECT_SOURCE_DIR}/src)
    try_run(print_isa_status print_isa_compiled
      SOURCES ${PROJECT_SOURCE_DIR}/cmake/print_isa.cpp ${folder}/base/os_processor.cpp
        ${folder}/targets/cpu/kernels/simd/host_isa.cpp
      NO_CACHE CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${folder} CXX_STANDARD 20
      RUN_OUTPUT_VARIABLE found)
    if(NOT print_isa_compiled OR NOT print_isa_status EQUAL 0 OR NOT found IN_LIST isas)
      message(STATUS "LATHE_ISA=host: this processor has none of ${isas}, all kernels are built")
      set(found all)
    endif()
    set(LATHE_HOST_ISA ${found} CACHE INTERNAL "")
  endif()
  set(isa ${LATHE_HOST_ISA})
elseif(NOT isa IN_LIST isas AND NOT isa STREQUAL "all")
  message(FATAL_ERROR "LATHE_ISA is '${isa}', expected all, host or one of ${isas}")
endif()
message(STATUS "CPU kernels: ${isa}")

file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/targets/cpu/kernels/*.cpp)
foreach(each ${isas})
  set(units_${each} ${sources})
  list(FILTER units_${each} INCLUDE REGEX "_${each}\\.cpp$")
  list(REMOVE_ITEM sources ${units_${each}})
endforeach()

# A build for one set contains each kernel once, compiled for the best set up to it. AMX builds add
# AVX-512, which multiplies small matrices.
if(NOT isa STREQUAL "all")
  set(taken)
  set(sets ${isas})
  list(REVERSE sets)
  list(FIND sets ${isa} at)
  foreach(each ${sets})
    list(FIND sets ${each} place)
    set(kept)
    foreach(unit ${units_${each}})
      string(REGEX REPLACE "_${each}\\.cpp$" "" kernel ${unit})
      if(NOT place LESS at AND NOT kernel IN_LIST taken)
        list(APPEND kept ${unit})
        if(NOT each STREQUAL "amx")
          list(APPEND taken ${kernel})
        endif()
      endif()
    endforeach()
    set(units_${each} ${kept})
  endforeach()
endif()

# Each file is compiled by itself: check_isa_objects.py reads object names, and kernels define helpers
# of equal names.
set(kernel_objects)
add_library(lathe_cpu_kernels OBJECT ${sources})
target_link_libraries(lathe_cpu_kernels PRIVATE lathe_options)
# These files define names of the vector layer, which the precompiled header includes.
set_source_files_properties(src/targets/cpu/kernels/common/transpose_avx2.cpp
  src/targets/cpu/kernels/gemm/pack_avx2.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
set_source_files_properties(src/targets/cpu/kernels/simd/isa.cpp PROPERTIES
  COMPILE_DEFINITIONS LATHE_ISA="${isa}")
set_target_properties(lathe_cpu_kernels PROPERTIES UNITY_BUILD OFF)
lathe_use_pch(lathe_cpu_kernels)
list(APPEND kernel_objects $<TARGET_OBJECTS:lathe_cpu_kernels>)
foreach(each ${isas})
  if(units_${each})
    add_library(lathe_cpu_${each} OBJECT ${units_${each}})
    target_link_libraries(lathe_cpu_${each} PRIVATE lathe_options)
    target_compile_options(lathe_cpu_${each} PRIVATE ${isa_${each}} ${isa_plain})
    target_precompile_headers(lathe_cpu_${each} PRIVATE <cmake/precompiled_kernels.h>)
    set_target_properties(lathe_cpu_${each} PROPERTIES UNITY_BUILD OFF)
    list(APPEND kernel_objects $<TARGET_OBJECTS:lathe_cpu_${each}>)
  endif()
endforeach()
list(APPEND core_objects ${kernel_objects})

# kernels_tests links base, tensor and the kernels alone, which is quick.
function(lathe_kernels_tests)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/kernels/*.cpp)
  if(CMAKE_BUILD_TYPE STREQUAL "Debug" AND LATHE_DEBUG_LEVEL EQUAL 0)
    # Naive loops take most of the time.
    set(loops ${sources})
    list(FILTER loops INCLUDE REGEX "/support/|/attention_decode_")
    set_source_files_properties(${loops} PROPERTIES COMPILE_OPTIONS -O1 SKIP_PRECOMPILE_HEADERS ON)
  endif()
  add_executable(kernels_tests ${sources} $<TARGET_OBJECTS:lathe_base>
    $<TARGET_OBJECTS:lathe_tensor> ${kernel_objects})
  set_target_properties(kernels_tests PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(kernels_tests PRIVATE lathe_options GTest::gtest GTest::gtest_main)
  target_precompile_headers(kernels_tests REUSE_FROM test_support)
  lathe_test(kernels kernels_tests --gtest_brief=1)
  if(LATHE_SANITIZE)  # sanitized loops are slow: run a fifth of the random cases
    set_property(TEST kernels APPEND PROPERTY ENVIRONMENT TEST_CASES=0.2)
  endif()
  # An emulated processor with AVX2 alone runs some cases of every kernel; `make test-haswell` runs all.
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    string(JOIN : slow Attention.*SameBits* Attention.*NaN* ContiguousDecode.*SameBits*
      PagedDecode.*Bits* WeightOnly.RowsHave* Winograd.*InEvery* Recurrent.HasThe* Matmul.RowsHave*
      ContiguousDecode.NonFinite* Convolution.*Batches* Matmul.Split* WeightOnly.Large*
      WeightOnlyCompact.*SameBits*)
    lathe_test(kernels_haswell scripts/haswell.sh $<TARGET_FILE:kernels_tests> --gtest_brief=1
      --gtest_filter=-${slow})
    set_property(TEST kernels_haswell APPEND PROPERTY ENVIRONMENT TEST_CASES=0.05)
  endif()
endfunction()
