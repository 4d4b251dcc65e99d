# SPDX-License-Identifier: Apache-2.0
# How this project declares verbs and tests, and the check that every header compiles alone.

add_custom_target(kvproof_verbs)  # every verb's program and nothing else
add_custom_target(kvproof_report)  # the programs that ./kvproof report runs
add_custom_target(kvproof_quick)  # what the quick tier of the tests runs and nothing else

# kvproof_room(<target> <file>...)
# Adds files to a target. With KVPROOF_UNITY those of one folder are compiled as one unit, because
# most of what a small unit costs is the standard headers; a name in an anonymous namespace is
# therefore unique in its folder.
function(kvproof_room target)
  target_sources(${target} PRIVATE ${ARGN})
  if(NOT KVPROOF_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(file IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH file)
    cmake_path(GET file PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE room)
    string(MAKE_C_IDENTIFIER ${room} room)
    set_source_files_properties(${file} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${room})
  endforeach()
endfunction()

# kvproof_verb(<verb>_main.cpp [LIBS <target>...])
# The program behind `kvproof <verb>`: bin/kvproof-<verb> in the build, libexec/kvproof installed.
# Nothing is timed in a program, but for the suites of kvproof-bench.
function(kvproof_verb main)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBS")
  string(REPLACE _main.cpp "" verb ${main})
  add_executable(kvproof-${verb} ${main})
  if(NOT verb STREQUAL bench)
    target_compile_options(kvproof-${verb} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  target_link_libraries(kvproof-${verb} PRIVATE kvproof_warnings ${arg_LIBS} kvproof_bench_support)
  add_dependencies(kvproof_verbs kvproof-${verb})
  # The launcher looks there.
  install(TARGETS kvproof-${verb} DESTINATION libexec/kvproof COMPONENT verbs)
endfunction()

# What most sources include, parsed once. Whether a header includes what it needs is checked apart.
set(KVPROOF_COMMON_HEADERS <algorithm> <cstdint> <functional> <map> <memory> <optional> <ranges>
                           <span> <string> <variant> <vector>)
function(kvproof_test_headers name level)
  if(TARGET ${name})
    return()
  endif()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/test_headers.cpp CONTENT "")
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/test_headers.cpp)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:${level}>)
  target_link_libraries(${name} PRIVATE kvproof_warnings GTest::gtest)
  target_precompile_headers(${name} PRIVATE <gtest/gtest.h> ${KVPROOF_COMMON_HEADERS})
endfunction()

# A hang is a failure, slowness is not: no test takes so long where five processes share its core.
set(KVPROOF_TEST_TIMEOUT 7200)

# kvproof_test(<name> SOURCES <file>... [LIBS <target>...] [NEEDS <target>...] [FULL] [OPTIMIZED])
# A GoogleTest program tests/<name>. Each of its cases is one ctest entry <name>.<suite>.<case>, so
# a skipped case is counted as skipped. Its sources are one unit with KVPROOF_UNITY. FULL leaves it
# to the full tier; otherwise the quick tier runs it, too. NEEDS are programs that it starts. A test
# drives libraries that are optimised as released; its own code only has to build quickly, unless it
# is OPTIMIZED, because it computes for seconds: of a template that both instantiate, the linker
# takes the test's.
function(kvproof_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "FULL;OPTIMIZED" "" "SOURCES;LIBS;NEEDS")
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "kvproof_test(${name}): SOURCES is missing")
  endif()
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests
                        UNITY_BUILD ${KVPROOF_UNITY} UNITY_BUILD_BATCH_SIZE 0)
  target_compile_definitions(${name} PRIVATE KVPROOF_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                             KVPROOF_BINARY_DIR="${PROJECT_BINARY_DIR}")
  set(level -O0)
  if(arg_OPTIMIZED)
    set(level -O1)
  endif()
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:${level}>)
  target_link_libraries(${name} PRIVATE kvproof_warnings ${arg_LIBS} GTest::gtest
                        GTest::gtest_main)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
    # Out of a precompiled header g++ 12 warns of its own std::string as if it were ours.
    target_compile_options(${name} PRIVATE -Wno-stringop-overflow)
  endif()
  kvproof_test_headers(kvproof_test_headers${level} ${level})
  target_precompile_headers(${name} REUSE_FROM kvproof_test_headers${level})
  if(arg_NEEDS)
    add_dependencies(${name} ${arg_NEEDS})
  endif()
  set(tier full)
  if(NOT arg_FULL)
    set(tier quick)
    add_dependencies(kvproof_quick ${name})
  endif()
  gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 600
                       PROPERTIES TIMEOUT ${KVPROOF_TEST_TIMEOUT} LABELS ${tier})
endfunction()

# kvproof_script_test(<name> COMMAND <word>... [NEEDS <target>...] [FULL])
# A test that is a command; it ends with 77 where it cannot run.
function(kvproof_script_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "FULL" "" "COMMAND;NEEDS")
  set(tier full)
  if(NOT arg_FULL)
    set(tier quick)
    if(arg_NEEDS)
      add_dependencies(kvproof_quick ${arg_NEEDS})
    endif()
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 LABELS ${tier}
                       TIMEOUT ${KVPROOF_TEST_TIMEOUT})
endfunction()

# Compiles every header of the given folders alone, and twice in one unit: a header that leans on
# another's includes, or that lacks its guard, does not build.
function(kvproof_check_headers)
  set(units)
  foreach(folder IN LISTS ARGN)
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
         ${PROJECT_SOURCE_DIR}/${folder}/*.h)
    list(FILTER headers EXCLUDE REGEX "^.ci/consumer/|(cuda|hopper)_device\\.h$")
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
