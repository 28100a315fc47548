#!/usr/bin/env bash
# Usage: tools/check_headers.sh [COMPILER]
#
# Compiles each public header alone, as a user's first include, with warnings as errors.
set -euo pipefail
cd "$(dirname "$0")/.."
compiler="${1:-g++}"

mapfile -t headers < <(find include -name '*.h' | sort)
failed=0
for header in "${headers[@]}"; do
  printf '#include "%s"\n' "${header#include/}" |
    "$compiler" -std=c++20 -fsyntax-only -Iinclude -Wall -Wextra -Wpedantic -Wshadow -Werror -x c++ - || {
    echo "headers: $header does not compile alone"
    failed=1
  }
done
echo "headers: ${#headers[@]} public headers"
exit "$failed"
