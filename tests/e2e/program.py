"""Runs the octavo program for the tests in this folder, and finds the default model."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

PROGRAM = os.environ.get("OCTAVO_PROGRAM", "build/release/octavo")
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
MODEL = os.environ.get("OCTAVO_MODEL") or str(CACHE / "octavo/SmolLM2-135M-Instruct.Q4_1.gguf")


def octavo(*arguments, stdin=b"", environment=None, prefix=()):
    """Returns the finished process, with bytes for stdout and text for stderr."""
    command = [*prefix, PROGRAM, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, env=environment, timeout=300, check=False)
    done.stderr = done.stderr.decode()
    return done


def run_json(*arguments, stdin=b""):
    """The object that `octavo run --json` prints; NaN and Infinity, which are not JSON, are refused."""
    done = octavo("run", "-m", MODEL, *arguments, "--json", stdin=stdin)
    if done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}: {done.stderr}")
    return parse_json(done.stdout)


def parse_json(text):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def main():
    """Runs the calling file's tests; skips them all (exit code 77) when the model is absent."""
    if not os.path.exists(MODEL):
        print(f"skipped: no model at {MODEL}; scripts/fetch-model brings it")
        sys.exit(77)
    unittest.main(module="__main__", verbosity=2)
