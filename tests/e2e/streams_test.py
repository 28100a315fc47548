"""Pipes, closed streams, Ctrl-C, help and version."""

import signal
import subprocess
import unittest

import program
from program import MODEL, PROGRAM, octavo

LONG = ("run", "-m", MODEL, "-p", "Once upon a time", "--temperature", "0", "--ignore-eos", "--max-tokens", "4000")


class StreamsTest(unittest.TestCase):
    def test_a_reader_that_goes_away_ends_the_program_quietly(self):
        with subprocess.Popen([PROGRAM, *LONG], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            self.assertTrue(process.stdout.read(1))
            process.stdout.close()
            self.assertEqual(process.wait(timeout=60), 1)
            self.assertEqual(process.stderr.read(), b"")

    def test_interrupt_ends_the_answer_and_then_the_program(self):
        with subprocess.Popen([PROGRAM, *LONG], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            self.assertTrue(process.stdout.read(1))
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130)
            self.assertIn(b"end: abort", errors)

    def test_closed_and_full_standard_output_are_errors(self):
        run = f'"{PROGRAM}" run -m "{MODEL}" -p a --max-tokens 1'
        for redirection in (">&-", ">/dev/full"):
            with self.subTest(redirection=redirection):
                done = subprocess.run(["bash", "-c", f"{run} {redirection}"], capture_output=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(b"cannot write to standard output", done.stderr)

    def test_closed_input_and_errors_do_not_matter_to_a_run(self):
        run = f'"{PROGRAM}" run -m "{MODEL}" -p a --max-tokens 1'
        done = subprocess.run(["bash", "-c", f"{run} <&- 2>&-"], capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stdout)

    def test_no_progress_where_nobody_watches(self):
        done = octavo("run", "-m", MODEL, "-p", "a", "--max-tokens", "1")
        self.assertNotIn("loading", done.stderr)

    def test_help_teaches_with_examples(self):
        for arguments in ((), ("run",), ("chat",), ("inspect",), ("tokenize",), ("bench",), ("bench", "cache"),
                          ("bench", "latency"), ("bench", "growth")):
            with self.subTest(command=arguments):
                done = octavo(*arguments, "--help")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(b"Examples:\n", done.stdout)
                self.assertIn(" ".join(("  octavo", *arguments)).encode() + b" ", done.stdout)

    def test_version(self):
        done = octavo("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout.decode(), r"^octavo \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    program.main()
