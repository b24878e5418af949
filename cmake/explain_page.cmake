# SPDX-License-Identifier: MIT
# Writes <build>/generated/cli/explain_page.inc: the page of `explain --html` as text.
set(texts)
foreach(part kPage=html kStyle=css kScript=js)
  string(REPLACE "=" ";" part ${part})
  list(GET part 0 name)
  list(GET part 1 suffix)
  text_literals(literals ${PROJECT_SOURCE_DIR}/src/cli/explain_page.${suffix})
  string(APPEND texts "const char* const ${name} =\n${literals};\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/cli/explain_page.inc CONTENT [[@texts@]] @ONLY)
