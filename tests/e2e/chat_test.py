"""`octavo chat`, through a pipe and on a terminal."""

import os
import pty
import re
import select
import time
import unittest

import program
from program import MODEL, PROGRAM, octavo

CHAT = ("chat", "-m", MODEL, "--temperature", "0")


class Terminal:
    """The program on a pseudo-terminal."""

    def __init__(self, *arguments):
        try:
            self.pid, self.descriptor = pty.fork()
        except OSError as error:
            raise unittest.SkipTest(f"this machine has no pseudo-terminals: {error}") from error
        if self.pid == 0:
            os.execv(PROGRAM, [PROGRAM, *arguments])

    def type(self, text):
        os.write(self.descriptor, text.encode())

    def read_until(self, pattern, seconds=120):
        """What came until the regular expression `pattern` matched it."""
        seen, end = "", time.monotonic() + seconds
        while not re.search(pattern, seen):
            ready, _, _ = select.select([self.descriptor], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"{pattern!r} did not come; this did: {seen!r}")
            seen += os.read(self.descriptor, 4096).decode(errors="replace")
        return seen

    def exit_code(self):
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class ChatTest(unittest.TestCase):
    def test_answers_each_line_of_a_pipe_and_remembers(self):
        first, second = b"Name a fruit.\n", b"What did I ask you just now?\n"
        both = octavo(*CHAT, "--max-tokens", "24", stdin=first + second)
        alone = [octavo(*CHAT, "--max-tokens", "24", stdin=question).stdout for question in (first, second)]

        self.assertEqual(both.returncode, 0, both.stderr)
        self.assertTrue(both.stdout.startswith(alone[0]), both.stdout)
        self.assertNotEqual(both.stdout[len(alone[0]):], alone[1])

    def test_reset_forgets(self):
        question = b"What is the capital of France?\n"
        once = octavo(*CHAT, "--max-tokens", "12", stdin=question)
        twice = octavo(*CHAT, "--max-tokens", "12", stdin=question + b"/reset\n" + question)

        self.assertEqual(twice.stdout, once.stdout * 2)

    def test_lines_may_end_as_windows_ends_them(self):
        question = b"What is the capital of France?"
        unix = octavo(*CHAT, "--max-tokens", "4", stdin=question + b"\n")
        windows = octavo(*CHAT, "--max-tokens", "4", stdin=question + b"\r\n/exit\r\nNever asked.\r\n")

        self.assertEqual((windows.returncode, windows.stderr), (0, ""))
        self.assertEqual(windows.stdout, unix.stdout)

    def test_a_full_context_names_the_way_out(self):
        result = octavo(*CHAT, "--max-model-len", "64", stdin=b"Hello.\n" + b"word " * 80 + b"\n")
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"the conversation has \d+ tokens, but max_model_len is 64")
        self.assertIn("/reset", result.stderr)

    def test_bad_lines_of_a_pipe_are_usage_errors(self):
        self.assertEqual(octavo(*CHAT, stdin=b"/fly\n").returncode, 2)
        self.assertEqual(octavo(*CHAT, stdin=b"\xff\n").returncode, 2)

    def test_interrupt_stops_the_answer_only_and_turns_share_the_cache(self):
        terminal = Terminal(*CHAT, "--ignore-eos")
        terminal.read_until("> $")
        terminal.type("Tell me a long story.\n")
        terminal.read_until(r"story\.\s+\w+")  # the echo, and the answer's beginning
        terminal.type("\x03")
        terminal.read_until(r"end: abort\]\s+> $")
        terminal.type("And then?\n")
        terminal.read_until(r"then\?\s+\w+")
        terminal.type("\x03")
        statistics = terminal.read_until(r"end: abort\]\s+> $")
        self.assertGreater(int(re.search(r"\((\d+) cached\)", statistics)[1]), 20)
        terminal.type("/help\n")
        terminal.read_until(r"/reset[^>]*> $")
        terminal.type("\x04")
        self.assertEqual(terminal.exit_code(), 0)


if __name__ == "__main__":
    program.main()
