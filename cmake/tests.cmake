# SPDX-License-Identifier: MIT
# One test program per folder of tests/, from its *_test.cpp; and each *_test.py as a test. Tests run
# in the source folder and find the command line in TEST_PROGRAM, the build's name in TEST_PRESET.
enable_testing()
cmake_path(GET CMAKE_BINARY_DIR FILENAME preset)
set(environment TEST_PRESET=${preset})
if(TARGET lathe)
  list(APPEND environment TEST_PROGRAM=$<TARGET_FILE:lathe>)
endif()
set(asan_options)
if(LATHE_SANITIZE MATCHES "address")  # unwinding whole stacks for each allocation takes an eighth of the time
  set(asan_options malloc_context_size=4)
  list(APPEND environment ASAN_OPTIONS=${asan_options})
endif()
function(lathe_test name)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77)
endfunction()

# The interpreter is not sanitized: it loads the sanitizer's library first, whose leak check would
# report what Python keeps until the end.
set(libraries)
foreach(name libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so libstdc++.so.6)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${name}
    OUTPUT_VARIABLE library OUTPUT_STRIP_TRAILING_WHITESPACE)
  list(APPEND libraries ${library})
endforeach()
list(JOIN libraries ":" libraries)
set(python_sanitizer LD_PRELOAD=${libraries} ASAN_OPTIONS=${asan_options}:detect_leaks=0:allocator_may_return_null=1
  PYTHONMALLOC=malloc)

# tests/support holds shared helpers. Its precompiled header serves all test programs.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/*.cpp)
add_library(test_support OBJECT ${sources})
target_link_libraries(test_support PRIVATE lathe_options GTest::gtest)
target_precompile_headers(test_support PRIVATE <tests/precompiled.h>)

file(GLOB folders LIST_DIRECTORIES true CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*)
foreach(path ${folders})
  cmake_path(GET path FILENAME folder)
  if(folder STREQUAL "kernels")  # see kernels.cmake
    continue()
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${path}/*_test.cpp)
  if(sources)
    if(folder STREQUAL "llm")
      lathe_llm_program(${folder}_tests tests ${sources})
    elseif(folder STREQUAL "codegen")
      lathe_program_of(${folder}_tests tests ${sources} $<TARGET_OBJECTS:lathe_base>
        $<TARGET_OBJECTS:lathe_tensor> $<TARGET_OBJECTS:lathe_ir> $<TARGET_OBJECTS:lathe_ops>
        $<TARGET_OBJECTS:lathe_codegen>)
    else()
      lathe_program(${folder}_tests tests ${sources} $<TARGET_OBJECTS:test_support>)
    endif()
    if(folder STREQUAL "ort_plugin")
      target_sources(ort_plugin_tests PRIVATE $<TARGET_OBJECTS:lathe_ort_plugin>)
    endif()
    target_link_libraries(${folder}_tests PRIVATE GTest::gtest GTest::gtest_main)
    lathe_test(${folder} ${folder}_tests --gtest_brief=1)
    if(folder STREQUAL "codegen" AND CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT CMAKE_CROSSCOMPILING)
      lathe_test(codegen_haswell scripts/haswell.sh $<TARGET_FILE:codegen_tests> --gtest_brief=1)
      set_property(TEST codegen_haswell APPEND PROPERTY ENVIRONMENT TEST_CASES=0.2 TEST_EMULATED=1)
    endif()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${path}/*_test.py)
  foreach(source ${sources})
    cmake_path(GET source STEM stem)
    lathe_test(${folder}_${stem} ${PROJECT_SOURCE_DIR}/build/venv/bin/python ${source})
    if(folder STREQUAL "python" AND TARGET _core AND LATHE_SANITIZE MATCHES "address")
      set_property(TEST ${folder}_${stem} APPEND PROPERTY ENVIRONMENT ${python_sanitizer})
    endif()
  endforeach()
endforeach()

# kernels_launched_test preloads it.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND NOT LATHE_SANITIZE)
  add_library(launched SHARED ${PROJECT_SOURCE_DIR}/tests/targets/launched.cpp)
  set_target_properties(launched PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(launched PRIVATE lathe_options)
endif()

# Takes the place of a vendor's library in tests of the GPU target.
add_library(fake_cublaslt SHARED ${PROJECT_SOURCE_DIR}/tests/gpu/fake_cublaslt.cpp)
set_target_properties(fake_cublaslt PROPERTIES OUTPUT_NAME cublasLt CXX_VISIBILITY_PRESET default
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/gpu_libraries)
target_link_libraries(fake_cublaslt PRIVATE lathe_options)
add_library(fake_cudnn SHARED ${PROJECT_SOURCE_DIR}/tests/gpu/fake_cudnn.cpp)
set_target_properties(fake_cudnn PROPERTIES OUTPUT_NAME cudnn CXX_VISIBILITY_PRESET default
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/gpu_convolutions)
target_link_libraries(fake_cudnn PRIVATE lathe_options)
# A driver and a compiler of an old version, which lack functions.
foreach(name cuda nvrtc)
  add_library(fake_old_${name} SHARED ${PROJECT_SOURCE_DIR}/tests/gpu/fake_old_version.cpp)
  set_target_properties(fake_old_${name} PROPERTIES OUTPUT_NAME ${name}
    CXX_VISIBILITY_PRESET default LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/gpu_old)
  target_link_libraries(fake_old_${name} PRIVATE lathe_options)
endforeach()
# A driver without functions that Lathe can do without.
add_library(fake_older_driver SHARED ${PROJECT_SOURCE_DIR}/tests/gpu/fake_older_driver.cpp)
set_target_properties(fake_older_driver PROPERTIES OUTPUT_NAME cuda CXX_VISIBILITY_PRESET default
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/gpu_older)
target_link_libraries(fake_older_driver PRIVATE lathe_options)
if(LATHE_SANITIZE)
  # Its functions take no arguments.
  target_compile_options(fake_older_driver PRIVATE -fno-sanitize=function)
endif()
add_dependencies(gpu_tests fake_cublaslt fake_cudnn fake_old_cuda fake_old_nvrtc fake_older_driver)
target_compile_definitions(gpu_tests PRIVATE
  FAKE_LIBRARIES="${CMAKE_BINARY_DIR}/tests/gpu_libraries"
  FAKE_CONVOLUTIONS="${CMAKE_BINARY_DIR}/tests/gpu_convolutions"
  OLD_LIBRARIES="${CMAKE_BINARY_DIR}/tests/gpu_old"
  OLDER_LIBRARIES="${CMAKE_BINARY_DIR}/tests/gpu_older")

# Python tests run these programs.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/llm/*_probe.cpp)
foreach(source ${sources})
  cmake_path(GET source STEM name)
  lathe_llm_program(${name} tests ${source})
endforeach()
lathe_program(decoder_probe tests ${PROJECT_SOURCE_DIR}/tests/decoders/decoder_probe.cpp)

if(TARGET lathe_cpu_kernels AND isa STREQUAL "all")
  lathe_kernels_tests()
endif()

# These programs use the public headers and the shared library alone.
function(lathe_user name source)
  add_executable(${name} ${PROJECT_SOURCE_DIR}/${source})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Werror)
  target_link_libraries(${name} PRIVATE liblathe)
endfunction()
# The C++ compiler compiles C too.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/capi/*.c)
set_source_files_properties(${sources} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-xc;-std=c11")
foreach(source ${sources})
  cmake_path(GET source STEM name)
  lathe_user(${name} tests/capi/${name}.c)
  lathe_test(capi_${name} ${name})
endforeach()
# A program built against the header of an earlier version.
lathe_user(c_program_version7 tests/capi/c_program.c)
target_include_directories(c_program_version7 BEFORE PRIVATE
  ${PROJECT_SOURCE_DIR}/tests/capi/version7)
target_compile_definitions(c_program_version7 PRIVATE LATHE_EXPECTED_VERSION=7)
lathe_test(capi_c_program_version7 c_program_version7)
lathe_user(cpp_wrappers tests/capi/wrappers.cpp)
lathe_test(capi_cpp_wrappers cpp_wrappers)
# What passes on the simulated device passes on the GPU target's.
foreach(name c_devices cpp_wrappers)
  lathe_test(capi_${name}_gpu ${name})
  set_property(TEST capi_${name}_gpu APPEND PROPERTY ENVIRONMENT TEST_DEVICE=gpu:host)
endforeach()
lathe_user(cpp_tokenizer tests/capi/tokenizer.cpp)
lathe_test(capi_cpp_tokenizer cpp_tokenizer)
lathe_user(cpp_chat_template tests/capi/chat_template.cpp)
lathe_test(capi_cpp_chat_template cpp_chat_template)
lathe_user(cpp_llm tests/capi/llm.cpp)
lathe_test(capi_cpp_llm cpp_llm)
lathe_user(cpp_encoder tests/capi/encoder.cpp)
lathe_test(capi_cpp_encoder cpp_encoder)
lathe_user(cpp_sentence_encoder tests/capi/sentence_encoder.cpp)
lathe_test(capi_cpp_sentence_encoder cpp_sentence_encoder)
lathe_user(embed examples/embed/main.cpp)
if(TARGET liblathe_ort AND NOT LATHE_SANITIZE)  # tests/ort_plugin runs it
  add_executable(ort_classify ${PROJECT_SOURCE_DIR}/examples/onnxruntime/classify.cpp)
  set_target_properties(ort_classify PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(ort_classify SYSTEM PRIVATE
    ${PROJECT_SOURCE_DIR}/third_party/onnxruntime)
  target_compile_options(ort_classify PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Werror)
  target_link_libraries(ort_classify PRIVATE ${CMAKE_DL_LIBS})
  lathe_program(ort_backend tests ${PROJECT_SOURCE_DIR}/tests/ort_plugin/backend_host.cpp)
  target_include_directories(ort_backend SYSTEM PRIVATE ${PROJECT_SOURCE_DIR}/third_party/onnxruntime)
endif()
lathe_test(capi_embed sh -c "$<TARGET_FILE:embed> examples/digits/digits.onnx \
  < examples/embed/seven.txt | grep '^digit 7, probability 0.99'")
if(NOT LATHE_SANITIZE)  # a plain program cannot load a sanitized library
  lathe_test(capi_installed tests/capi/installed.sh ${CMAKE_BINARY_DIR} ${CMAKE_CXX_COMPILER})
endif()

if(LATHE_SANITIZE MATCHES "address")  # `make random-programs` runs others
  set_property(TEST programs APPEND PROPERTY ENVIRONMENT RANDOM_PROGRAMS=30)
endif()
# The longest tests start first, because tests run beside each other.
foreach(name gpu targets kernels kernels_haswell decoders errors_errors_test decoders_whisper_test)
  if(TEST ${name})
    set_tests_properties(${name} PROPERTIES COST 100)
  endif()
endforeach()
