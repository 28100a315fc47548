# Sourced by every script here: strict mode, the repository's root, messages, and where the default model lies.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
MODEL_FILE="SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_DIR="${XDG_CACHE_HOME:-$HOME/.cache}/octavo"
MODEL_PATH="$MODEL_DIR/$MODEL_FILE"

say() { printf '%s\n' "$*" >&2; }

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# Prints the comment block at the top of the calling script, and stops, when --help is among the arguments.
help_if_asked() {
  local argument
  for argument in "$@"; do
    case "$argument" in
      -h | --help)
        sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"
        exit 0
        ;;
    esac
  done
}
