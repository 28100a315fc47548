"""bench/compare/run from end to end, with programs that only print what the engines would."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import scripts

OCTAVO = '''
import json, sys
words = sys.argv[1:]
if "--help" in words:
    print("  throughput   Equal requests\\n  --kv-cache-dtype auto|float16")
elif "--version" in words:
    print("octavo 9.9")
else:
    run = {"prefill_tokens_per_s": 300, "decode_tokens_per_s": 30, "output_tokens_per_s": 60}
    print(json.dumps({"runs": [run, run]}))
'''
LLAMA_BENCH = '''
import json, sys
if "-rtr" in sys.argv:
    sys.exit("error: out of memory")
print(json.dumps([{"build_commit": "abc123", "samples_ts": [1, 100 if "512" in sys.argv else 20]}]))
'''


class RunTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        for name, text in (("octavo", OCTAVO), ("llama-bench", LLAMA_BENCH)):
            (self.path / name).write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
            (self.path / name).chmod(0o755)
        (self.path / "m.gguf").touch()

    def tearDown(self):
        self.folder.cleanup()

    def run_script(self, name, *arguments):
        command = [sys.executable, scripts.COMPARE / name, "-m", self.path / "m.gguf", "--octavo", self.path / "octavo",
                   "--work", self.path / "work", "--threads", "1", *arguments]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60, check=False)

    def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(self):
        for option in ("--json", "--svg"):
            with self.subTest(option=option):
                done = self.run_script("run", "--metrics", "decode", "--peers", "", option, self.path / "nowhere" / "r")
                self.assertEqual(done.returncode, 2)
                self.assertIn(f"{option} ", done.stderr)
                self.assertNotIn("Traceback", done.stderr)
                self.assertFalse((self.path / "work").exists())

    def test_the_table_the_json_and_the_plot_are_written_whatever_the_peers_do(self):
        done = self.run_script("run", "--metrics", "prefill-512,decode,decode-4k-kv8,batch-4", "--repeat", "2",
                               "--peers", "llama.cpp,ik_llama.cpp", "--llama-cpp", self.path, "--ik-llama-cpp", self.path,
                               "--json", self.path / "r.json", "--svg", self.path / "r.svg")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| prefill of 512 tokens | 3.00 | - | 3.00 (llama.cpp) |", done.stdout)
        self.assertIn("| decode, short context | 1.50 | - | 1.50 (llama.cpp) |", done.stdout)
        self.assertIn("* octavo, decode-4k-kv8: not in this build", done.stdout)
        self.assertIn("* llama.cpp, batch-4: ", done.stdout)
        self.assertIn("error: out of memory", done.stdout)
        self.assertIn("* llama.cpp: abc123, built elsewhere", done.stdout)
        result = json.loads((self.path / "r.json").read_text(encoding="utf-8"))
        self.assertEqual([row["metric"] for row in result["rows"]], ["decode", "decode-4k-kv8", "prefill-512", "batch-4"])
        self.assertIn("--input-len 512", result["commands"]["octavo"]["prefill-512"])
        self.assertIn("llama.cpp: 3.00", (self.path / "r.svg").read_text(encoding="utf-8"))

    def test_one_stream_takes_a_llama_bench_and_the_options_of_the_run(self):
        done = self.run_script("single_stream.py", "--llama-bench", self.path / "llama-bench", "--only", "decode", "--repeat", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| decode, short context | 1.50 | 1.50 (llama.cpp) |", done.stdout)

    def test_what_is_wrong_with_the_command_line_is_said_in_one_line(self):
        for arguments, words in ((("--peers", "vlm"), "there is no peer 'vlm'; there are llama.cpp"), (("--threads", "0"), "at least 1"),
                                 (("--octavo", "nothing"), "scripts/build makes it"), (("--metrics", ""), "the list is empty"),
                                 (("--octavo-flags", "'"), "No closing quotation")):
            done = self.run_script("run", *arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(words, done.stderr.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
