#!/bin/sh
# Cross-compiles the kernels and their tests for 64-bit Arm and runs the tests under qemu-user: the NEON twins against the
# reference, bit for bit. Needs g++-aarch64-linux-gnu, qemu-user and libgtest-dev; without one of them exits with 77.
# Usage: tools/check_neon.sh [build folder] [arguments of the tests]
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$(mktemp -d)}
[ $# -eq 0 ] || shift
gtest=/usr/src/googletest/googletest
compiler=aarch64-linux-gnu-g++
cache=$(command -v ccache || true)
for needed in "$compiler" qemu-aarch64; do
  command -v "$needed" >/dev/null || { echo "check_neon: skipped, there is no $needed"; exit 77; }
done
[ -d "$gtest/src" ] || { echo "check_neon: skipped, there is no $gtest"; exit 77; }

# Libraries that are headers, alone: the host's other headers must not reach the cross compiler.
mkdir -p "$build/include"
build=$(cd "$build" && pwd)
for library in hwy fmt; do
  for folder in /usr/local/include /usr/include; do
    if [ -d "$folder/$library" ]; then ln -sfn "$folder/$library" "$build/include/$library"; fi
  done
done

cd "$root"
sources=$(find src/kernels src/quant src/tensor -name '*.cc' ! -name '*_bench.cc' ! -path 'src/quant/*_test.cc' \
  ! -path 'src/tensor/*_test.cc')
for file in aligned_memory check cpu_features portable_math; do sources="$sources src/base/$file.cc"; done
for file in gtest-all gtest_main; do sources="$sources $gtest/src/$file.cc"; done

# A Makefile, so that as many compile at once as there are processors, and again only what has changed.
{
  echo "CXX = $cache $compiler"
  echo "FLAGS = -std=c++20 -O2 -ffp-contract=off -MMD -DFMT_HEADER_ONLY -Isrc -Iinclude" \
    "-isystem $build/include -isystem $gtest/include -isystem $gtest"
  echo "all: $build/check_neon"
  objects=""
  for source in $sources; do
    object="$build/$(echo "$source" | tr / _).o"
    objects="$objects $object"
    printf '%s: %s\n\t$(CXX) $(FLAGS) -c %s -o $@\n' "$object" "$source" "$source"
  done
  printf '%s/check_neon: %s\n\t$(CXX) -static -pthread $^ -o $@\n' "$build" "$objects"
  echo "-include $build/*.d"
} >"$build/Makefile"
make --quiet --jobs "$(nproc)" --file "$build/Makefile" all
qemu-aarch64 "$build/check_neon" --gtest_brief=1 "$@"
