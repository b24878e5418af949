# SPDX-License-Identifier: MIT
# Uses ccache where it is installed. Paths are hashed relative to the source folder, so that
# checkouts in different places share what they compile.
find_program(LATHE_CCACHE ccache)
if(LATHE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
    CCACHE_NOHASHDIR=1 CCACHE_PCH_EXTSUM=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    ${CMAKE_SOURCE_DIR}/cmake/ccache.sh ${LATHE_CCACHE})
endif()
