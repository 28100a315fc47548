#!/usr/bin/env bash
# Usage: install_test.sh BUILD_FOLDER CONSUMER_FOLDER COMPILER
#
# A user's way: cmake --install, then find_package(octavo) in a project of their own, whose source is examples/minimal.cc.
set -euo pipefail
build="$1" consumer="$2" compiler="$3"
example="$(cd "$(dirname "$0")/../.." && pwd)/examples/minimal.cc"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --component octavo --prefix "$work/prefix" >"$work/install.log"
cmake -S "$consumer" -B "$work/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$compiler" \
  -DOCTAVO_EXAMPLE="$example" >"$work/configure.log"
cmake --build "$work/build"
"$work/prefix/bin/octavo" --version

model="${OCTAVO_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/octavo/SmolLM2-135M-Instruct.Q4_1.gguf}"
if [ -f "$model" ]; then
  answer="$("$work/build/consumer" "$model")"
  [ -n "$answer" ] || { echo "the consumer printed nothing"; exit 1; }
  echo "the consumer says: $answer"
else
  echo "built only: there is no model at $model"
fi
