# SPDX-License-Identifier: MIT
# Writes <build>/generated/targets/gpu/kernels.inc: the files of src/targets/gpu/kernels as text.
file(GLOB kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/targets/gpu/kernels/*.gpu)
set(texts)
foreach(kernel ${kernels})
  cmake_path(GET kernel FILENAME name)
  text_literals(literals ${kernel})
  string(APPEND texts "{\"${name}\",\n${literals}},\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/targets/gpu/kernels.inc CONTENT [[@texts@]] @ONLY)
