# The C++ library of xgrammar, which scripts/fetch-dependencies unpacks, as the static library octavo_xgrammar. Its own
# build wants link-time optimisation, warnings as errors and an install of its own, so its sources are listed here instead.
if(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(octavo_cache_folder "$ENV{XDG_CACHE_HOME}/octavo")
else()
  set(octavo_cache_folder "$ENV{HOME}/.cache/octavo")
endif()
set(OCTAVO_XGRAMMAR_SOURCE "${octavo_cache_folder}/xgrammar-0.2.8" CACHE PATH "The unpacked sources of xgrammar 0.2.8")
if(NOT EXISTS "${OCTAVO_XGRAMMAR_SOURCE}/include/xgrammar/xgrammar.h")
  message(FATAL_ERROR "The sources of xgrammar are not in ${OCTAVO_XGRAMMAR_SOURCE}: run scripts/fetch-dependencies, "
    "or set OCTAVO_XGRAMMAR_SOURCE to the folder that has them.")
endif()

file(GLOB_RECURSE octavo_xgrammar_sources "${OCTAVO_XGRAMMAR_SOURCE}/cpp/*.cc")
list(FILTER octavo_xgrammar_sources EXCLUDE REGEX "/cpp/tvm_ffi/|/cpp/json_schema_converter.cc$")

# Two faults of this version are mended in a copy: strings with a length may hold raw control characters, which JSON forbids;
# and its automaton for patterns drops what stands before a repeat in an optional group ("1(\.[0-9]{1,9})?" matches 123).
set(octavo_xgrammar_patched "${CMAKE_BINARY_DIR}/xgrammar/json_schema_converter.cc")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${OCTAVO_XGRAMMAR_SOURCE}/cpp/json_schema_converter.cc")
file(READ "${OCTAVO_XGRAMMAR_SOURCE}/cpp/json_schema_converter.cc" octavo_xgrammar_text)
foreach(change
    "{'\\r', '\\r'}, {'\\n', '\\n'}}, true)=>{0x00, 0x1F}}, true)"
    "RegexExpression(*spec.pattern, /*json_string=*/true)=>RegexExpression(*spec.pattern, false, true)")
  string(REGEX MATCH "^(.*)=>(.*)$" unused "${change}")
  set(before "${CMAKE_MATCH_1}")
  set(after "${CMAKE_MATCH_2}")
  string(FIND "${octavo_xgrammar_text}" "${before}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "The sources of xgrammar in ${OCTAVO_XGRAMMAR_SOURCE} are not those of version 0.2.8")
  endif()
  string(REPLACE "${before}" "${after}" octavo_xgrammar_text "${octavo_xgrammar_text}")
endforeach()
file(CONFIGURE OUTPUT "${octavo_xgrammar_patched}" CONTENT "@octavo_xgrammar_text@" @ONLY)
add_library(octavo_xgrammar STATIC ${octavo_xgrammar_sources} "${octavo_xgrammar_patched}")
target_include_directories(octavo_xgrammar PRIVATE "${OCTAVO_XGRAMMAR_SOURCE}/cpp")
set_target_properties(octavo_xgrammar PROPERTIES CXX_STANDARD 17 UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
foreach(folder include 3rdparty/picojson 3rdparty/dlpack/include)
  target_include_directories(octavo_xgrammar SYSTEM PUBLIC "$<BUILD_INTERFACE:${OCTAVO_XGRAMMAR_SOURCE}/${folder}>")
endforeach()
# Its messages go through functions that src/structured defines: a library does not print.
target_compile_definitions(octavo_xgrammar PRIVATE
  XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0 XGRAMMAR_LOG_CUSTOMIZE=1)
target_compile_options(octavo_xgrammar PRIVATE -w)
target_link_libraries(octavo_xgrammar PRIVATE Threads::Threads)
if(OCTAVO_SANITIZE)
  # Its memory is watched as ours is; what UBSan adds would double the time that it takes to build.
  string(REPLACE ",undefined" "" octavo_xgrammar_sanitize "${OCTAVO_SANITIZE}")
  target_compile_options(octavo_xgrammar PRIVATE
    -fsanitize=${octavo_xgrammar_sanitize} -fno-omit-frame-pointer -fno-sanitize-recover=all)
endif()
if(OCTAVO_BUILD_FUZZERS)
  target_compile_options(octavo_xgrammar PRIVATE -fsanitize=fuzzer-no-link)
endif()
