"""On a processor below AVX2 the program says so, in one line, before any instruction that is not there."""

import shutil
import sys
import unittest

import program
from program import MODEL, octavo

QEMU = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")


class OldProcessorTest(unittest.TestCase):
    def refused(self, model):
        return octavo("run", "-m", MODEL, "-p", "a", prefix=(QEMU, "-cpu", model))

    def test_processors_without_avx2_are_refused_in_one_line(self):
        for model in ("Nehalem", "SandyBridge", "qemu64"):
            with self.subTest(model=model):
                done = self.refused(model)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("AVX2", done.stderr)
                self.assertEqual(sum("octavo" in line for line in done.stderr.splitlines()), 1, done.stderr)

    def test_what_needs_no_kernels_still_works(self):
        done = octavo("tokenize", "-m", MODEL, "--json", stdin=b"The", prefix=(QEMU, "-cpu", "Nehalem"))
        self.assertEqual(done.stdout, b'{"token_ids":[504],"tokens":["The"]}\n')


if __name__ == "__main__":
    if QEMU is None:
        print("skipped: qemu-user is not installed")
        sys.exit(77)
    program.main()
