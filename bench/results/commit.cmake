# SPDX-License-Identifier: Apache-2.0
# Writes the source file that names the commit being built; run at every build, so that results
# never carry an old one. Arguments: SOURCE_DIR, OUTPUT, GIT (empty where there is none).
set(commit unknown)
if(GIT)
  execute_process(COMMAND ${GIT} rev-parse --show-toplevel WORKING_DIRECTORY ${SOURCE_DIR}
                  OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(REAL_PATH "${SOURCE_DIR}" source)
  if(top STREQUAL source)  # and not some repository around an unpacked archive
    execute_process(COMMAND ${GIT} rev-parse --verify HEAD WORKING_DIRECTORY ${SOURCE_DIR}
                    OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                    RESULT_VARIABLE failed)
    if(NOT failed)
      set(commit ${head})
      execute_process(COMMAND ${GIT} status --porcelain --untracked-files=no
                      WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE changes
                      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      if(changes)
        string(APPEND commit " with changes")
      endif()
    endif()
  endif()
endif()
set(text "#include \"bench/results/environment.h\"\n\n")
string(APPEND text "const char* const kvproof::bench::kCommit = \"${commit}\";\n")
set(old)
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
endif()
if(NOT "${text}" STREQUAL "${old}")
  file(WRITE ${OUTPUT} "${text}")
endif()
