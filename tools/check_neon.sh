#!/bin/sh
# Cross-compiles the kernels for 64-bit Arm and compares the NEON twins with the reference under qemu-user.
# Needs g++-aarch64-linux-gnu and qemu-user. Usage: tools/check_neon.sh [build folder]
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$(mktemp -d)}
mkdir -p "$build"

# Highway's headers, alone: the host's other headers must not reach the cross compiler.
for folder in /usr/include /usr/local/include; do
  if [ -f "$folder/hwy/highway.h" ]; then
    mkdir -p "$build/include"
    ln -sfn "$folder/hwy" "$build/include/hwy"
    break
  fi
done

flags="-std=c++20 -O1 -ffp-contract=off -Wall -Wextra -I$root/src -I$root/include -isystem $build/include"
sources="$root/src/base/check.cc $root/src/tensor/dtype.cc $root/src/quant/pack_blocks.cc
  $root/src/quant/packed_matrix.cc $root/src/quant/unpack.cc $root/src/kernels/reference/matmul.cc
  $root/src/kernels/simd/matmul.cc $root/tools/check_neon.cc"
objects=""
for source in $sources; do
  object="$build/$(echo "${source#"$root"/}" | tr / _).o"
  # shellcheck disable=SC2086
  aarch64-linux-gnu-g++ $flags -c "$source" -o "$object"
  objects="$objects $object"
done
# shellcheck disable=SC2086
aarch64-linux-gnu-g++ -static $objects -o "$build/check_neon"
qemu-aarch64 "$build/check_neon"
