# SPDX-License-Identifier: Apache-2.0
# Tests of the project itself: the source tree, the launcher, the page, and a consumer.
kvproof_test(tidy_test SOURCES tidy_test.cpp tidy.cpp tidy_lines.cpp LIBS kvproof::reference
             LABELS unit tidy)

add_test(NAME launcher
         COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/launcher_test.sh ${PROJECT_SOURCE_DIR}/kvproof)
set_tests_properties(launcher PROPERTIES LABELS unit TIMEOUT 120)

# Of several interpreters, the one that can draw: the tests of the page skip themselves without it.
set(python python3)
foreach(candidate IN ITEMS /usr/bin/python3 python3)
  execute_process(COMMAND ${candidate} -c "import matplotlib" RESULT_VARIABLE failed OUTPUT_QUIET
                  ERROR_QUIET)
  if(failed EQUAL 0)
    set(python ${candidate})
  endif()
endforeach()
foreach(script IN ITEMS make_page_test.py run_test.py)
  add_test(NAME reports.${script} COMMAND ${python} ${PROJECT_SOURCE_DIR}/reports/${script})
  set_tests_properties(reports.${script} PROPERTIES LABELS reports SKIP_RETURN_CODE 77 TIMEOUT 300)
endforeach()

add_test(NAME consumer
         COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DBUILD=${PROJECT_BINARY_DIR}
                 -DWORK=${PROJECT_BINARY_DIR}/consumer -DGENERATOR=${CMAKE_GENERATOR}
                 -DCOMPILER=${CMAKE_CXX_COMPILER} -DTYPE=$<CONFIG> -DSANITIZE=${KVPROOF_SANITIZE}
                 -P ${CMAKE_CURRENT_LIST_DIR}/consumer/run.cmake)
set_tests_properties(consumer PROPERTIES LABELS package TIMEOUT 600)
