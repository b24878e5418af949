# SPDX-License-Identifier: MIT
# Writes to SUM the hash of SOURCE, preprocessed: what ccache knows a precompiled header by.
set(flags -std=c++20 -x c++ -w -E -P -I${SOURCES}/src -I${SOURCES})
if(TARGET)
  list(PREPEND flags --target=${TARGET})
endif()
execute_process(COMMAND ${COMPILER} ${flags} ${SOURCE} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
string(SHA256 sum "${text}${VERSION}")
file(WRITE ${SUM} ${sum})
