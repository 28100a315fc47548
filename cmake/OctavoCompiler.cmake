# Compiler flags that every target shares. The floating-point rules are those of docs/contracts/arithmetic.md:
# no contraction, no fast-math; only kernels compile code above baseline x86-64, by function attributes.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

option(OCTAVO_PRECOMPILE_HEADERS "Precompile the headers that all tests include" ON)
find_program(OCTAVO_CCACHE ccache)
if(OCTAVO_CCACHE)
  # What ccache asks for where headers are precompiled (with GCC also -fpch-preprocess, below).
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros "${OCTAVO_CCACHE}")
endif()

add_library(octavo_flags INTERFACE)
target_compile_options(octavo_flags INTERFACE
  -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-align)
if(OCTAVO_PRECOMPILE_HEADERS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(octavo_flags INTERFACE -fpch-preprocess)
endif()
if(OCTAVO_SANITIZE)
  target_compile_options(octavo_flags INTERFACE
    -fsanitize=${OCTAVO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(octavo_flags INTERFACE -fsanitize=${OCTAVO_SANITIZE})
endif()
