# SPDX-License-Identifier: Apache-2.0
# The only place that knows third-party libraries: each is looked for on this machine first and
# fetched at a pinned commit otherwise. Whoever links them uses the targets named here:
#
#   nlohmann_json::nlohmann_json  OpenSSL::Crypto  kvproof::deps::xxhash             always
#   CLI11::CLI11  kvproof::deps::zstd  ZLIB::ZLIB  benchmark::benchmark              tests, bench
#   GTest::gtest  GTest::gtest_main  rapidcheck                                      tests
include(FetchContent)

option(KVPROOF_FORCE_FETCH "Fetch the pinned libraries even where installed ones exist" OFF)

# A package found here must be visible to a project that adds this one as a subdirectory.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL TRUE)

# Fetches <name> at <commit>; with ADD, adds its CMake project (found at that path below its root)
# without its install rules and with its headers as system headers.
function(kvproof_fetch name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "REPOSITORY;COMMIT;ADD" "")
  message(STATUS "kvproof: ${name} is not installed, fetching ${arg_REPOSITORY} at ${arg_COMMIT}")
  # A subdirectory that does not exist makes MakeAvailable populate only: the library is added
  # below, because FetchContent before CMake 3.28 cannot leave out a library's install rules.
  FetchContent_Declare(${name} GIT_REPOSITORY ${arg_REPOSITORY} GIT_TAG ${arg_COMMIT}
                       GIT_SUBMODULES "" SOURCE_SUBDIR kvproof-populates-only)
  FetchContent_MakeAvailable(${name})
  string(TOLOWER ${name} lower)
  set(${name}_SOURCE ${${lower}_SOURCE_DIR} PARENT_SCOPE)
  if(arg_ADD)
    set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)  # normal variables set by the caller win over option()
    set(CMAKE_POLICY_VERSION_MINIMUM 3.5)  # CMake 4 refuses projects that ask for less
    set(BUILD_SHARED_LIBS OFF)
    set(CMAKE_CXX_CLANG_TIDY "")
    add_subdirectory(${${lower}_SOURCE_DIR}/${arg_ADD} ${${lower}_BINARY_DIR}
                     EXCLUDE_FROM_ALL SYSTEM)
  endif()
endfunction()

# Sets <name>_INSTALLED: whether the package was found here. Further arguments go to find_package.
macro(kvproof_find name)
  set(${name}_INSTALLED OFF)
  if(NOT KVPROOF_FORCE_FETCH)
    find_package(${name} QUIET ${ARGN})
    if(${name}_FOUND)
      set(${name}_INSTALLED ON)
      message(STATUS "kvproof: ${name} ${${name}_VERSION}: installed")
    endif()
  endif()
endmacro()

# OpenSSL has no CMake build of its own and belongs to the system, so it is never fetched.
find_package(OpenSSL QUIET COMPONENTS Crypto)
if(NOT TARGET OpenSSL::Crypto)
  message(FATAL_ERROR "kvproof needs OpenSSL's libcrypto (SHA-256 block hashes). Install "
                      "libssl-dev (Debian, Ubuntu), openssl-devel (Fedora) or openssl (Homebrew).")
endif()
message(STATUS "kvproof: OpenSSL ${OPENSSL_VERSION}: installed")

if(NOT TARGET nlohmann_json::nlohmann_json)
  kvproof_find(nlohmann_json 3.10)
  if(NOT nlohmann_json_INSTALLED)
    set(JSON_BuildTests OFF)
    set(JSON_Install OFF)
    kvproof_fetch(nlohmann_json REPOSITORY https://github.com/nlohmann/json.git  # v3.11.3
                  COMMIT 9cca280a4d0ccf0c08f47a99aa71d1b0e52f8d03 ADD .)
  endif()
endif()

# Header only everywhere: its users define XXH_INLINE_ALL before they include <xxhash.h>.
if(NOT TARGET kvproof_deps_xxhash)
  add_library(kvproof_deps_xxhash INTERFACE)
  add_library(kvproof::deps::xxhash ALIAS kvproof_deps_xxhash)
  if(NOT KVPROOF_FORCE_FETCH)
    find_path(KVPROOF_XXHASH_INCLUDE xxhash.h)
  endif()
  if(KVPROOF_XXHASH_INCLUDE AND NOT KVPROOF_FORCE_FETCH)
    message(STATUS "kvproof: xxHash: installed")
    target_include_directories(kvproof_deps_xxhash SYSTEM INTERFACE ${KVPROOF_XXHASH_INCLUDE})
  else()
    kvproof_fetch(xxHash REPOSITORY https://github.com/Cyan4973/xxHash.git  # v0.8.1
                  COMMIT 35b0373c697b5f160d3db26b1cbb45a0d5ba788c)
    target_include_directories(kvproof_deps_xxhash SYSTEM INTERFACE ${xxHash_SOURCE})
  endif()
endif()

if(KVPROOF_TESTS OR KVPROOF_BENCH)
  find_package(Threads REQUIRED)

  kvproof_find(CLI11 2.1)
  if(NOT CLI11_INSTALLED)
    set(CLI11_BUILD_TESTS OFF)
    set(CLI11_BUILD_EXAMPLES OFF)
    set(CLI11_BUILD_DOCS OFF)
    set(CLI11_INSTALL OFF)
    kvproof_fetch(CLI11 REPOSITORY https://github.com/CLIUtils/CLI11.git  # v2.4.2
                  COMMIT 6c7b07a878ad834957b98d0f9ce1dbe0cb204fc9 ADD .)
  endif()

  kvproof_find(ZLIB)
  if(NOT ZLIB_INSTALLED)
    enable_language(C)
    set(ZLIB_BUILD_EXAMPLES OFF)
    set(SKIP_INSTALL_ALL ON)
    kvproof_fetch(kvproof_zlib REPOSITORY https://github.com/madler/zlib.git  # v1.3.1
                  COMMIT 51b7f2abdade71cd9bb0e7a373ef2610ec6f9daf ADD .)
    add_library(kvproof_zlib_static INTERFACE)
    target_link_libraries(kvproof_zlib_static INTERFACE zlibstatic)
    add_library(ZLIB::ZLIB ALIAS kvproof_zlib_static)
  endif()

  # zstd's own package names its targets differently from one distribution to the next.
  add_library(kvproof_deps_zstd INTERFACE)
  add_library(kvproof::deps::zstd ALIAS kvproof_deps_zstd)
  if(NOT KVPROOF_FORCE_FETCH)
    find_path(KVPROOF_ZSTD_INCLUDE zstd.h)
    find_library(KVPROOF_ZSTD_LIBRARY zstd)
  endif()
  if(KVPROOF_ZSTD_INCLUDE AND KVPROOF_ZSTD_LIBRARY AND NOT KVPROOF_FORCE_FETCH)
    message(STATUS "kvproof: zstd: installed")
    target_include_directories(kvproof_deps_zstd SYSTEM INTERFACE ${KVPROOF_ZSTD_INCLUDE})
    target_link_libraries(kvproof_deps_zstd INTERFACE ${KVPROOF_ZSTD_LIBRARY})
  else()
    enable_language(C)
    set(ZSTD_BUILD_PROGRAMS OFF)
    set(ZSTD_BUILD_TESTS OFF)
    set(ZSTD_BUILD_SHARED OFF)
    set(ZSTD_LEGACY_SUPPORT OFF)
    kvproof_fetch(kvproof_zstd REPOSITORY https://github.com/facebook/zstd.git  # v1.5.6
                  COMMIT 794ea1b0afca0f020f4e57b6732332231fb23c70 ADD build/cmake)
    target_include_directories(kvproof_deps_zstd SYSTEM INTERFACE ${kvproof_zstd_SOURCE}/lib)
    target_link_libraries(kvproof_deps_zstd INTERFACE libzstd_static)
  endif()

  kvproof_find(benchmark 1.7)
  if(NOT benchmark_INSTALLED)
    set(BENCHMARK_ENABLE_TESTING OFF)
    set(BENCHMARK_ENABLE_GTEST_TESTS OFF)
    set(BENCHMARK_ENABLE_INSTALL OFF)
    set(BENCHMARK_INSTALL_DOCS OFF)
    set(BENCHMARK_ENABLE_WERROR OFF)
    kvproof_fetch(benchmark REPOSITORY https://github.com/google/benchmark.git  # v1.8.5
                  COMMIT a6ad7fbbdc2e14fab82bb8a6d27760d700198cbf ADD .)
  endif()
endif()

if(KVPROOF_TESTS)
  kvproof_find(GTest 1.12)
  if(NOT GTest_INSTALLED)
    set(BUILD_GMOCK OFF)
    set(INSTALL_GTEST OFF)
    kvproof_fetch(googletest REPOSITORY https://github.com/google/googletest.git  # v1.14.0
                  COMMIT f8d7d77c06936315286eb55f8de22cd23c188571 ADD .)
  endif()

  # Installed copies differ in which extras they carry; only <rapidcheck.h> is used here.
  kvproof_find(rapidcheck)
  if(NOT rapidcheck_INSTALLED)
    kvproof_fetch(rapidcheck REPOSITORY https://github.com/emil-e/rapidcheck.git  # 2023-12-14
                  COMMIT ff6af6fc683159deb51c543b065eba14dfcf329b ADD .)
  endif()
endif()
