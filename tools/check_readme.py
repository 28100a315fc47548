#!/usr/bin/env python3
"""Checks that the README's C++ example is examples/minimal.cc, which the tests compile."""

import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
blocks = re.findall(r"```cpp\n(.*?)```", (root / "README.md").read_text(encoding="utf-8"), re.DOTALL)
if blocks != [(root / "examples/minimal.cc").read_text(encoding="utf-8")]:
    sys.exit("readme: the one C++ block of README.md is not examples/minimal.cc")
print("readme: the example is examples/minimal.cc")
