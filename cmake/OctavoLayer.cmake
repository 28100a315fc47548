include(GoogleTest)

# One precompiled header for all test programs; a test still includes what it uses. It belongs to a program, since only
# those are compiled with -fPIE.
if(OCTAVO_BUILD_TESTS AND OCTAVO_PRECOMPILE_HEADERS)
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/test_headers.cc" CONTENT "int main() { return 0; }\n")
  add_executable(octavo_test_headers "${CMAKE_BINARY_DIR}/test_headers.cc")
  target_link_libraries(octavo_test_headers PRIVATE octavo_flags GTest::gtest GTest::gmock)
  target_precompile_headers(octavo_test_headers PRIVATE
    <gmock/gmock.h> <gtest/gtest.h> <algorithm> <optional> <string> <string_view> <utility> <vector>)
endif()

# octavo_layer(NAME [DEPS other layers...] [LIBRARIES external targets...])
# Makes static library octavo_NAME from every *.cc in the current folder that is not a test, a bench or a fuzzer, and one
# test program octavo_NAME_test from every *_test.cc.
function(octavo_layer name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|_bench|_fuzz|_main)\\.cc$")

  if(sources)
    add_library(octavo_${name} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(octavo_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(octavo_${name} ${scope}
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>")
  target_link_libraries(octavo_${name} ${scope} $<BUILD_INTERFACE:octavo_flags>)
  foreach(dep ${ARG_DEPS})
    target_link_libraries(octavo_${name} ${scope} octavo_${dep})
  endforeach()
  target_link_libraries(octavo_${name} ${scope} ${ARG_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY OCTAVO_LAYERS octavo_${name})

  if(OCTAVO_BUILD_TESTS AND tests)
    add_executable(octavo_${name}_test ${tests})
    target_link_libraries(octavo_${name}_test PRIVATE octavo_${name} octavo_rapidcheck GTest::gtest GTest::gmock GTest::gtest_main)
    target_compile_definitions(octavo_${name}_test PRIVATE OCTAVO_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    if(OCTAVO_PRECOMPILE_HEADERS)
      target_precompile_headers(octavo_${name}_test REUSE_FROM octavo_test_headers)
    endif()
    gtest_discover_tests(octavo_${name}_test DISCOVERY_TIMEOUT 120 PROPERTIES LABELS unit)
  endif()
endfunction()
