# SPDX-License-Identifier: Apache-2.0
# Takes a linker and a compiler cache that are faster than the defaults, where they are found.
include(CheckLinkerFlag)

if(NOT KVPROOF_FUZZ_ENGINE)
  foreach(linker IN ITEMS mold lld gold)
    check_linker_flag(CXX -fuse-ld=${linker} KVPROOF_HAS_${linker})
    if(KVPROOF_HAS_${linker})
      add_link_options(-fuse-ld=${linker})
      break()
    endif()
  endforeach()
endif()

find_program(KVPROOF_CCACHE ccache)
mark_as_advanced(KVPROOF_CCACHE)
if(KVPROOF_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without the sloppiness it does not cache what uses a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
                                  ${KVPROOF_CCACHE})
endif()
