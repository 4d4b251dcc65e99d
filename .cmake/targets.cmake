# SPDX-License-Identifier: Apache-2.0
# How this project declares verbs and tests, and the check that every header compiles alone.

add_custom_target(kvproof_verbs)  # every verb's program and nothing else

# kvproof_verb(<verb> SOURCES <file>... LIBS <target>...)
# The program behind `kvproof <verb>`: bin/kvproof-<verb> in the build, libexec/kvproof installed.
function(kvproof_verb verb)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
  add_executable(kvproof-${verb} ${arg_SOURCES})
  target_link_libraries(kvproof-${verb} PRIVATE kvproof_warnings ${arg_LIBS})
  # <verb>_main.cpp reads the command line, by far the slowest thing to compile; nothing is measured
  # in it.
  list(FILTER arg_SOURCES INCLUDE REGEX "_main\\.cpp$")
  set_source_files_properties(${arg_SOURCES} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O0>)
  add_dependencies(kvproof_verbs kvproof-${verb})
  install(TARGETS kvproof-${verb} DESTINATION libexec/kvproof)  # where the launcher looks
endfunction()

# What most sources include, parsed once. Whether a header includes what it needs is checked apart.
set(KVPROOF_COMMON_HEADERS <algorithm> <cstdint> <functional> <map> <memory> <optional> <ranges>
                           <span> <string> <variant> <vector>)
function(kvproof_test_headers)
  if(TARGET kvproof_test_headers)
    return()
  endif()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/test_headers.cpp CONTENT "")
  add_library(kvproof_test_headers OBJECT ${PROJECT_BINARY_DIR}/test_headers.cpp)
  target_compile_options(kvproof_test_headers PRIVATE $<$<CONFIG:Release>:-O1>)
  target_link_libraries(kvproof_test_headers PRIVATE kvproof_warnings GTest::gtest)
  target_precompile_headers(kvproof_test_headers PRIVATE <gtest/gtest.h> ${KVPROOF_COMMON_HEADERS})
endfunction()

# kvproof_test(<name> SOURCES <file>... [LIBS <target>...] [LABELS <label>...] [TIMEOUT <seconds>]
#              [ENVIRONMENT <NAME=value>...] [WHOLE])
# A GoogleTest program tests/<name>. Each of its cases is one ctest entry <name>.<suite>.<case>, so
# a skipped case is counted as skipped; WHOLE makes the program one entry, for cases that share an
# expensive set-up.
function(kvproof_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "WHOLE" "TIMEOUT" "SOURCES;LIBS;LABELS;ENVIRONMENT")
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "kvproof_test(${name}): SOURCES is missing")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_compile_definitions(${name} PRIVATE KVPROOF_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                             KVPROOF_BINARY_DIR="${PROJECT_BINARY_DIR}")
  # A test drives libraries that are optimised as released; its own code only has to build quickly.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_link_libraries(${name} PRIVATE kvproof_warnings ${arg_LIBS} GTest::gtest
                        GTest::gtest_main)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
    # Out of a precompiled header g++ 12 warns of its own std::string as if it were ours.
    target_compile_options(${name} PRIVATE -Wno-stringop-overflow)
  endif()
  kvproof_test_headers()
  target_precompile_headers(${name} REUSE_FROM kvproof_test_headers)
  if(arg_WHOLE)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}"
                         ENVIRONMENT "${arg_ENVIRONMENT}")
  else()
    gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST
                         DISCOVERY_TIMEOUT 60
                         PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}"
                                    ENVIRONMENT "${arg_ENVIRONMENT}")
  endif()
endfunction()

# Compiles every header of the given folders alone, and twice in one unit: a header that leans on
# another's includes, or that lacks its guard, does not build.
function(kvproof_check_headers)
  set(units)
  foreach(folder IN LISTS ARGN)
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
         ${PROJECT_SOURCE_DIR}/${folder}/*.h)
    list(FILTER headers EXCLUDE REGEX "^properties/project/consumer/|cuda_device\\.h$")
    foreach(header IN LISTS headers)
      set(unit ${PROJECT_BINARY_DIR}/headers/${header}.cpp)
      file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"@header@\"\n#include \"@header@\"\n" @ONLY)
      list(APPEND units ${unit})
    endforeach()
  endforeach()
  if(NOT units)
    return()
  endif()
  add_library(kvproof_header_checks OBJECT ${units})
  set_target_properties(kvproof_header_checks PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)
  target_compile_options(kvproof_header_checks PRIVATE -O0 -g0)
  target_compile_definitions(kvproof_header_checks PRIVATE  # as kvproof_test has them
                             KVPROOF_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                             KVPROOF_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_include_directories(kvproof_header_checks PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(kvproof_header_checks PRIVATE kvproof_warnings kvproof::reference
                        kvproof::optimized nlohmann_json::nlohmann_json kvproof::deps::xxhash
                        OpenSSL::Crypto CLI11::CLI11 kvproof::deps::zstd ZLIB::ZLIB
                        benchmark::benchmark GTest::gtest rapidcheck)
endfunction()
