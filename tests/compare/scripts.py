"""Lets the tests of this folder import bench/compare."""

import pathlib
import sys

COMPARE = pathlib.Path(__file__).resolve().parent.parent.parent / "bench" / "compare"
sys.path[:0] = [str(COMPARE), str(COMPARE / "workers")]
