# SPDX-License-Identifier: MIT
# text_literals(VARIABLE FILE): sets VARIABLE to string literals of C++, one a line, which together are the text of
# FILE; a changed file configures again.
function(text_literals variable file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  # Compilers limit the length of a string literal.
  string(LENGTH "${text}" length)
  set(literals)
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} 8000 part)
    string(APPEND literals "R\"text(${part})text\"\n")
    math(EXPR at "${at} + 8000")
  endwhile()
  set(${variable} "${literals}" PARENT_SCOPE)
endfunction()
