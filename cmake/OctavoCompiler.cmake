# Compiler flags that every target shares. The floating-point rules are those of docs/contracts/arithmetic.md:
# no contraction, no fast-math; only kernels compile code above baseline x86-64, by function attributes.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

find_program(OCTAVO_CCACHE ccache)
if(OCTAVO_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${OCTAVO_CCACHE}")
endif()

add_library(octavo_flags INTERFACE)
target_compile_options(octavo_flags INTERFACE
  -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-align)
if(OCTAVO_SANITIZE)
  target_compile_options(octavo_flags INTERFACE
    -fsanitize=${OCTAVO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(octavo_flags INTERFACE -fsanitize=${OCTAVO_SANITIZE})
endif()
