# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` lays down: the two libraries as kvproof::reference and kvproof::optimized
# with a package file, their headers, and, when bench/ is built, the launcher and its verbs.
include(CMakePackageConfigHelpers)

set(kvproof_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kvproof)
install(TARGETS kvproof_reference kvproof_optimized EXPORT kvproof_targets)
install(EXPORT kvproof_targets NAMESPACE kvproof:: FILE kvproof-targets.cmake
        DESTINATION ${kvproof_package_dir})
configure_package_config_file(.cmake/kvproof-config.cmake.in kvproof-config.cmake
                              INSTALL_DESTINATION ${kvproof_package_dir})
write_basic_package_version_file(kvproof-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kvproof-config.cmake
              ${PROJECT_BINARY_DIR}/kvproof-config-version.cmake
        DESTINATION ${kvproof_package_dir})
# The public headers: what a program needs that keeps its cache with kvproof, and what somebody
# needs who has an allocator of their own checked. What else these include lies below detail/.
set(public
    optimized/cache_manager.h optimized/concurrent/concurrent_pool.h optimized/slot_mapping.h
    reference/config.h reference/contract.h reference/ids.h reference/model_presets.h
    reference/outcomes.h reference/pool_sizing.h reference/request.h
    properties/engines/kit/kvproof_engine.h properties/engines/kit/kvproof_kit.h
    properties/engines/kit/kvproof_subject.h)
set(detail
    optimized/concurrent/concurrent_state.h optimized/concurrent/spin_lock.h
    reference/kv_spec.h reference/layer_rules.h reference/layout.h reference/snapshot.h)
foreach(header IN LISTS public detail)
  cmake_path(GET header PARENT_PATH folder)
  if(header IN_LIST detail)
    string(PREPEND folder detail/)
  endif()
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kvproof/${folder})
endforeach()
install(CODE "file(CREATE_LINK engines/kit  # where adapters of earlier include it
  \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/kvproof/properties/foreign\"
  SYMBOLIC)")
install(DIRECTORY optimized/manager optimized/pool
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kvproof/detail/optimized
        FILES_MATCHING PATTERN "*.h" PATTERN "reversed.h" EXCLUDE)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

if(KVPROOF_BENCH)
  install(PROGRAMS kvproof DESTINATION bin COMPONENT verbs)
  file(CONFIGURE OUTPUT version.cmake CONTENT "set(KVPROOF_VERSION @KVPROOF_VERSION@)\n" @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/version.cmake DESTINATION share/kvproof COMPONENT verbs)
  # for check and lens
  install(DIRECTORY properties/sources/traces/vectors properties/sources/regressions
                    properties/story/scenes
          DESTINATION share/kvproof COMPONENT verbs)
  install(FILES properties/engines/kit/README.md properties/engines/kit/examples/adapter.py
                properties/engines/kit/examples/kit_engine.cpp
                properties/engines/kit/examples/kit_engine.py
                properties/engines/kit/examples/kit_pool.cpp
                properties/engines/kit/examples/kit_pool.py
                properties/engines/kit/examples/paged_pool.cpp
          DESTINATION share/kvproof/foreign COMPONENT verbs)
  install(DIRECTORY reports DESTINATION share/kvproof COMPONENT verbs  # where the launcher looks
          FILES_MATCHING PATTERN "*.py" PATTERN "run.sh" PATTERN "page.*"
          PATTERN "gallery" EXCLUDE PATTERN "kvproof_support" EXCLUDE PATTERN "__pycache__" EXCLUDE)
  install(DIRECTORY reference/support/kvproof_support DESTINATION share/kvproof/reports
          COMPONENT verbs FILES_MATCHING PATTERN "*.py")
endif()
