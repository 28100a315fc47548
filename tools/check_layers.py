#!/usr/bin/env python3
"""Checks that every include in src/ and include/ follows an edge that tools/layers.toml allows.

Usage: tools/check_layers.py [ROOT]     (exit code 1 and one line per violation)
"""

import pathlib
import re
import sys
import tomllib

EXTERNAL = ("octavo", "hwy", "gtest", "gmock", "rapidcheck")  # folders that every layer may include from
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def find_cycle(layers):
    """Returns a layer that reaches itself through the allowed edges, or None."""
    for start in layers:
        seen, waiting = set(), list(layers[start])
        while waiting:
            layer = waiting.pop()
            if layer == start:
                return start
            if layer not in seen:
                seen.add(layer)
                waiting += layers.get(layer, [])
    return None


def includes_of(path):
    text = path.read_text(encoding="utf-8")
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1)


def sources_under(folder):
    return sorted(p for p in folder.rglob("*") if p.suffix in (".h", ".cc"))


def check(root):
    layers = tomllib.loads((root / "tools/layers.toml").read_text())["layers"]
    problems = []
    if cycle := find_cycle(layers):
        problems.append(f"tools/layers.toml: layer '{cycle}' reaches itself")
    for path in sources_under(root / "include"):
        for line, target in includes_of(path):
            if not target.startswith("octavo/"):
                problems.append(f"{path.relative_to(root)}:{line}: a public header includes \"{target}\"")
    num_sources = 0
    for path in sources_under(root / "src"):
        num_sources += 1
        name = path.relative_to(root)
        layer = name.parts[1]
        if layer not in layers:
            problems.append(f"{name}: folder src/{layer} is not in tools/layers.toml")
            continue
        for line, target in includes_of(path):
            other = target.split("/")[0]
            if other != layer and other not in EXTERNAL and other not in layers[layer]:
                problems.append(f"{name}:{line}: {layer} may not include \"{target}\"")
    return num_sources, problems


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    num_sources, problems = check(root)
    for problem in problems:
        print(problem)
    print(f"layers: {num_sources} sources checked, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
