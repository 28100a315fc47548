"""`octavo tokenize`: any bytes from a file or a pipe; special tokens only on request."""

import tempfile
import unittest

import program
from program import MODEL, octavo, parse_json


def tokenize(*arguments, stdin=b""):
    done = octavo("tokenize", "-m", MODEL, *arguments, "--json", stdin=stdin)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return parse_json(done.stdout)


class TokenizeTest(unittest.TestCase):
    def test_ids_and_tokens_of_plain_text(self):
        self.assertEqual(tokenize(stdin=b"The capital of France is"),
                         {"token_ids": [504, 3575, 282, 4649, 314],
                          "tokens": ["The", " capital", " of", " France", " is"]})

    def test_text_that_spells_a_special_token_stays_text_unless_asked(self):
        text = b"<|im_start|>user"
        self.assertNotIn(1, tokenize(stdin=text)["token_ids"])
        self.assertEqual(tokenize("--parse-special", stdin=text)["token_ids"][0], 1)

    def test_bytes_that_are_not_utf8_come_back(self):
        data = "日本語 🎉\r\n\t".encode() + b"\x80\xe6\x97 ?"
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            tokens = tokenize("--no-add-special", file.name)["tokens"]
        back = b"".join(bytes.fromhex(token[6:].replace("\\x", "")) if token.startswith("bytes:") else token.encode()
                        for token in tokens)
        self.assertEqual(back, data)

    def test_nothing_gives_nothing(self):
        self.assertEqual(tokenize("-"), {"token_ids": [], "tokens": []})

    def test_lines_for_people(self):
        done = octavo("tokenize", "-m", MODEL, stdin=b"The capital\n")
        self.assertEqual(done.stdout.decode().split("\n")[0].split(), ["504", '"The"'])


if __name__ == "__main__":
    program.main()
