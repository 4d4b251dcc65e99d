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
install(DIRECTORY reference optimized DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kvproof
        FILES_MATCHING PATTERN "*.h" PATTERN "reference/support" EXCLUDE
        PATTERN "variants.h" EXCLUDE)
install(FILES properties/foreign/kvproof_subject.h properties/foreign/kvproof_kit.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kvproof/properties/foreign)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

if(KVPROOF_BENCH)
  install(PROGRAMS kvproof DESTINATION bin COMPONENT verbs)
  file(CONFIGURE OUTPUT version.cmake CONTENT "set(KVPROOF_VERSION @KVPROOF_VERSION@)\n" @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/version.cmake DESTINATION share/kvproof COMPONENT verbs)
  # for check
  install(DIRECTORY properties/traces/vectors properties/regressions
          DESTINATION share/kvproof COMPONENT verbs)
  install(FILES properties/foreign/README.md properties/foreign/examples/adapter.py
                properties/foreign/examples/kit_pool.cpp
                properties/foreign/examples/kit_pool.py
                properties/foreign/examples/paged_pool.cpp
          DESTINATION share/kvproof/foreign COMPONENT verbs)
  install(DIRECTORY reports DESTINATION share/kvproof COMPONENT verbs  # where the launcher looks
          FILES_MATCHING PATTERN "*.py" PATTERN "run.sh" PATTERN "page.*"
          PATTERN "gallery" EXCLUDE PATTERN "__pycache__" EXCLUDE)
endif()
