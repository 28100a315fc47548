#!/usr/bin/env bash
# Usage: tools/check_format.sh [--fix]
#
# Checks the layout of every C++ source that git knows against .clang-format. Exit code 77 (a skipped test) when no
# clang-format 14 is installed: other versions lay some lines out otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."

formatter=""
for candidate in clang-format-14 clang-format; do
  if command -v "$candidate" >/dev/null && "$candidate" --version | grep -q ' version 14\.'; then
    formatter="$candidate"
    break
  fi
done
if [ -z "$formatter" ]; then
  echo "format: skipped, clang-format 14 is not installed"
  exit 77
fi

mapfile -t sources < <(find src include tests fuzz bench examples -name '*.h' -o -name '*.cc' | sort)
if [ "${1:-}" = --fix ]; then
  "$formatter" -i "${sources[@]}"
else
  badly_laid_out="$("$formatter" --dry-run -Werror "${sources[@]}" 2>&1 | sed -n 's/^\([^ :]*\):[0-9]*:[0-9]*: error:.*/\1/p' | uniq -c || true)"
  if [ -n "$badly_laid_out" ]; then
    printf 'format: lines to lay out anew (tools/check_format.sh --fix), by file:\n%s\n' "$badly_laid_out"
    exit 1
  fi
fi
echo "format: ${#sources[@]} sources"
