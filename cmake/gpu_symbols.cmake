# SPDX-License-Identifier: MIT
# As a script, `cmake -DNM=… -DOBJECTS=a|b -DIMPORTS=… -DEXPORTS=… -P gpu_symbols.cmake`: what the
# objects of liblathe_gpu call of Lathe. IMPORTS defines these functions for the library as jumps
# through a table; EXPORTS is the table of the program that opens the library.
string(REPLACE "|" ";" objects "${OBJECTS}")
execute_process(COMMAND ${NM} -P ${objects} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "_Z[A-Z]*5lathe[A-Za-z0-9_.]* U" undefined "${text}")
string(REGEX MATCHALL "_Z[A-Z]*5lathe[A-Za-z0-9_.]* [A-TV-Z]" defined "${text}")
list(TRANSFORM undefined REPLACE " .$" "")
list(TRANSFORM defined REPLACE " .$" "")
list(REMOVE_DUPLICATES undefined)
set(records _ZN5lathe3ops7recordsE)
list(REMOVE_ITEM undefined ${defined} ${records})
list(SORT undefined)

set(hashes)
foreach(object ${objects})
  file(MD5 ${object} hash)
  string(APPEND hashes ${hash})
endforeach()
string(MD5 stamp "${hashes}")

set(count 0)
set(declarations)
set(addresses)
set(stubs)
foreach(symbol ${undefined})
  if(symbol MATCHES "^_ZT")
    message(FATAL_ERROR "liblathe_gpu takes functions of Lathe alone, not ${symbol}")
  endif()
  string(APPEND declarations
    "[[gnu::visibility(\"hidden\")]] extern const char f${count}[] __asm__(\"${symbol}\");\n")
  string(APPEND addresses "f${count},\n")
  math(EXPR offset "8 * ${count}")
  string(APPEND stubs "    STUB(\"${symbol}\", \"${offset}\")\n")
  math(EXPR count "${count} + 1")
endforeach()
file(CONFIGURE OUTPUT ${EXPORTS} @ONLY CONTENT [=[
// Generated.
#include "targets/gpu_library.h"

extern "C" {
@declarations@
[[gnu::visibility("hidden")]] extern lathe::Op records[] __asm__("@records@");
[[gnu::visibility("hidden")]] extern const lathe::GpuHost lathe_gpu_host;
}
namespace {
const void* const kFunctions[] = {
@addresses@};
}
const lathe::GpuHost lathe_gpu_host{"@stamp@", kFunctions, records};
]=])
file(CONFIGURE OUTPUT ${IMPORTS} @ONLY CONTENT [=[
// Generated.
#include <cstddef>

extern "C" {
[[gnu::visibility("hidden")]] extern const void* lathe_gpu_imports[];
[[gnu::visibility("hidden")]] extern const size_t lathe_gpu_import_count;
[[gnu::visibility("hidden")]] extern const char lathe_gpu_stamp[];
[[gnu::visibility("default")]] extern char records[] __asm__("@records@");
const void* lathe_gpu_imports[@count@];
const size_t lathe_gpu_import_count = @count@;
const char lathe_gpu_stamp[] = "@stamp@";
char records[8];
}
#if defined(__x86_64__)
#define JUMP(offset) "  jmpq *lathe_gpu_imports+" offset "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP(offset)                          \
  "  adrp x16, lathe_gpu_imports+" offset "\n" \
  "  ldr x16, [x16, :lo12:lathe_gpu_imports+" offset "]\n  br x16\n"
#endif
#define STUB(symbol, offset)                                                        \
  ".globl " symbol "\n.hidden " symbol "\n.type " symbol ", %function\n" symbol ":\n" \
      JUMP(offset)
__asm__(
    ".text\n"
@stubs@);
]=])
