"""bench/compare/decode_bound.py: what a step must read, and its share of a plain read."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import scripts

import decode_bound

INSPECTED = {"tensors": [{"name": "token_embd.weight", "bytes": 400}, {"name": "blk.0.ffn_up.weight", "bytes": 1000}],
             "kv_bytes_per_token": {"float16": 8}}
OCTAVO = f'''
import json, sys
words = sys.argv[1:]
if "inspect" in words:
    print(json.dumps({INSPECTED}))
elif "roofline" in words:
    print(json.dumps({{"reads": [{{"bytes_per_thread": 16, "bytes_per_s": 9e12}}, {{"bytes_per_thread": 64, "bytes_per_s": 2e6}}]}}))
elif "no.gguf" in words:
    sys.exit("error: no.gguf: no such file")
else:
    print(json.dumps({{"decode_tokens_per_s": 1000.0}}))
'''


class BytesOfStepTest(unittest.TestCase):
    def test_the_embedding_counts_where_the_vocabulary_is_projected_by_it(self):
        self.assertEqual(decode_bound.bytes_of_step(INSPECTED, 10), 1480)
        output = {"name": "output.weight", "bytes": 300}
        untied = {**INSPECTED, "tensors": [*INSPECTED["tensors"], output]}
        self.assertEqual(decode_bound.bytes_of_step(untied, 10), 1380)


class ScriptTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.octavo = pathlib.Path(self.folder.name) / "octavo"
        self.octavo.write_text(f"#!{sys.executable}\n{OCTAVO}", encoding="utf-8")
        self.octavo.chmod(0o755)

    def tearDown(self):
        self.folder.cleanup()

    def run_script(self, model):
        return subprocess.run([sys.executable, scripts.COMPARE / "decode_bound.py", "--octavo", self.octavo, "-m", model,
                               "--threads", "2", "--output-len", "48", "--repeat", "3"],
                              capture_output=True, text=True, timeout=60)

    def test_the_share_is_of_the_largest_working_set(self):
        done = self.run_script("folder/m.gguf")
        self.assertEqual(done.returncode, 0, done.stderr)
        # 1,400 bytes of weights and 8 of each of 40 tokens, 1,000 times a second, of 2,000,000.
        self.assertIn("| m.gguf | 0.0 | 0.0 | 0.86 (0.86 to 0.86) |", done.stdout)

    def test_a_command_that_fails_is_named_with_what_it_says(self):
        done = self.run_script("no.gguf")
        self.assertEqual(done.returncode, 1)
        self.assertIn("error: no.gguf: no such file", done.stderr)


if __name__ == "__main__":
    unittest.main()
