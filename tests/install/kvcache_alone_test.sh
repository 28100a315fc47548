#!/usr/bin/env bash
# Usage: kvcache_alone_test.sh SOURCE_FOLDER COMPILER
#
# The KV cache's control plane by itself: configured, built, tested and installed without the rest of octavo, then used by
# a project of its own, whose source is examples/kv_cache_only.cc.
set -euo pipefail
source="$1" compiler="$2"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

configure() { cmake -G Ninja -DCMAKE_CXX_COMPILER="$compiler" "$@" >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }; }

configure -S "$source" -B "$work/alone" -DCMAKE_BUILD_TYPE=Release -DOCTAVO_ONLY_KVCACHE=ON
cmake --build "$work/alone" --target octavo_kvcache_test
"$work/alone/bin/octavo_kvcache_test" --gtest_brief=1
cmake --install "$work/alone" --prefix "$work/prefix" >"$work/install.log"

configure -S "$(dirname "$0")/kvcache_consumer" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DOCTAVO_EXAMPLE="$source/examples/kv_cache_only.cc"
cmake --build "$work/build"
"$work/build/kvcache_consumer"

if cmake -S "$(dirname "$0")/consumer" -B "$work/refused" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" \
    -DCMAKE_CXX_COMPILER="$compiler" -DOCTAVO_EXAMPLE="$source/examples/minimal.cc" >"$work/refused.log" 2>&1; then
  echo "find_package(octavo) found all of octavo, where only the KV cache is installed"
  exit 1
fi
grep -q "only the component kvcache is installed" "$work/refused.log"
