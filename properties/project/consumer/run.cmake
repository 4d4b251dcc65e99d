# SPDX-License-Identifier: Apache-2.0
# Installs this build below WORK and has the consumer use it in each way that a project can.
#   cmake -DSOURCE= -DBUILD= -DWORK= -DGENERATOR= -DCOMPILER= -DTYPE= -DSANITIZE= -P run.cmake

function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${what}: exit ${code}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
  message(STATUS "${what}: ok")
endfunction()

file(REMOVE_RECURSE ${WORK})
set(prefix ${WORK}/prefix)
run("install" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
foreach(file bin/kvproof libexec/kvproof/kvproof-replay libexec/kvproof/kvproof-bench
             share/kvproof/reports/run.sh include/kvproof/reference/ids.h)
  if(NOT EXISTS ${prefix}/${file})
    message(FATAL_ERROR "install: ${file} is missing")
  endif()
endforeach()
run("installed launcher" ${prefix}/bin/kvproof replay --help)
run("version" ${SOURCE}/kvproof version)
set(expected "${output}")
run("installed version" ${prefix}/bin/kvproof version)
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "the installed version is ${output}, that of the sources ${expected}")
endif()

set(flags "")
if(SANITIZE)
  set(flags -fsanitize=${SANITIZE})
endif()
set(consumer ${SOURCE}/properties/project/consumer)
set(configure ${CMAKE_COMMAND} -G ${GENERATOR} -S ${consumer} -DCMAKE_CXX_COMPILER=${COMPILER}
    -DCMAKE_BUILD_TYPE=${TYPE} "-DCMAKE_CXX_FLAGS=${flags}" -DCMAKE_PREFIX_PATH=${prefix})

run("find_package: configure" ${configure} -B ${WORK}/package)
run("find_package: build" ${CMAKE_COMMAND} --build ${WORK}/package)
run("find_package: run the example" ${WORK}/package/embed)
run("find_package: run the program of README.md" ${WORK}/package/readme)
run("find_package: run" ${WORK}/package/consumer)
set(expected "${output}")

run("add_subdirectory: configure" ${configure} -B ${WORK}/subdirectory -DKVPROOF_SOURCE=${SOURCE}
    -DCMAKE_BUILD_TYPE=Debug -DKVPROOF_UNITY=ON)
run("add_subdirectory: build" ${CMAKE_COMMAND} --build ${WORK}/subdirectory --parallel 2)
run("add_subdirectory: run" ${WORK}/subdirectory/consumer)
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "the two ways answer differently:\n${expected}\n${output}")
endif()

execute_process(COMMAND ${configure} -B ${WORK}/refused -DWANTED=99 RESULT_VARIABLE code
                OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(code EQUAL 0 OR NOT output MATCHES "requested version[ \n]+\"99\"")
  message(FATAL_ERROR "version 99 was not refused: exit ${code}\n${output}")
endif()
message(STATUS "version 99: refused")
