#!/usr/bin/env python3
"""Sums up a folder of test results: ctest's JUnit files, and the lists of fuzzers that passed and failed.

Usage: tools/count_tests.py FOLDER

Names each test that failed, then prints "N passed, N failed" (and ", N skipped" when there are any) as the last line.
The exit code is 1 when one failed or none passed.
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def skipped_on_purpose(case):
    """Tells a test that skipped itself from one whose program is missing."""
    skip = case.find("skipped")
    return skip is not None and skip.get("message", "").startswith("SKIP_")


def main():
    folder = pathlib.Path(sys.argv[1])
    passed, failed, skipped = 0, [], 0
    for file in sorted(folder.glob("*.xml")):
        for case in ElementTree.parse(file).getroot().iter("testcase"):
            status = case.get("status")
            if status == "run":
                passed += 1
            elif status == "disabled" or (status == "notrun" and skipped_on_purpose(case)):
                skipped += 1
            else:
                failed.append(f"{file.stem}: {case.get('name')}")
    for outcome in ("passed", "failed"):
        file = folder / f"fuzzers-{outcome}"
        names = file.read_text().split() if file.exists() else []
        if outcome == "passed":
            passed += len(names)
        else:
            failed += [f"fuzz: {name}" for name in names]
    for name in failed:
        print(f"FAILED {name}")
    print(f"{passed} passed, {len(failed)} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
