"""`octavo replay`: hit rates of a trace by pool size and policy. Needs no model."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

from program import PROGRAM, octavo, parse_json

TRACE = str(pathlib.Path(__file__).resolve().parent.parent / "golden/traces/mooncake-conversation-50.jsonl")


class ReplayTest(unittest.TestCase):
    def replay(self, *arguments, stdin=b""):
        done = octavo("replay", *arguments, stdin=stdin)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_object_has_the_figures_of_every_policy_and_pool(self):
        result = parse_json(self.replay(TRACE, "--pool-tokens", "16384,131072", "--json"))

        self.assertEqual(result["num_requests"], 50)
        self.assertEqual(result["num_prompt_tokens"], 204823)
        self.assertEqual(result["num_output_tokens"], 21623)
        self.assertEqual((result["bound"]["num_hit_tokens"], result["bound"]["pool_tokens"]), (147613, 78826))
        self.assertEqual([(run["policy"], run["pool_tokens"]) for run in result["runs"]],
                         [("lru", 16384), ("cost_aware", 16384), ("lru", 131072), ("cost_aware", 131072)])
        for run in result["runs"]:
            self.assertAlmostEqual(run["hit_rate"], run["num_hit_tokens"] / 204823)
            self.assertEqual(run["num_refused"], 0)
        small, large = result["runs"][0], result["runs"][2]
        self.assertLess(small["share_of_bound"], 1.0)
        self.assertGreater(small["num_evictions"], 0)
        self.assertEqual((large["share_of_bound"], large["num_evictions"]), (1.0, 0))

    def test_the_default_pools_go_from_the_longest_request_to_all_distinct_tokens(self):
        result = parse_json(self.replay(TRACE, "--policy", "lru", "--json"))

        self.assertEqual([run["pool_tokens"] for run in result["runs"]], [16384, 32768, 65536])

    def test_the_table_has_a_row_for_each_run(self):
        lines = self.replay("-", "--policy", "cost_aware,lru", "--pool-tokens", "65536",
                            stdin=pathlib.Path(TRACE).read_bytes()).decode().splitlines()

        self.assertTrue(lines[0].startswith("50 requests, 204823 prompt and 21623 output tokens"), lines[0])
        self.assertEqual([line.split()[:2] for line in lines[-2:]], [["cost_aware", "65536"], ["lru", "65536"]])

    def test_the_plot_is_a_picture_with_a_line_for_each_policy(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plot.svg")
            self.replay(TRACE, "--plot", path)
            svg = pathlib.Path(path).read_text()
        root = xml.etree.ElementTree.fromstring(svg)
        self.assertTrue(root.tag.endswith("svg"))
        texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        for name in ("lru", "cost_aware", "pool without end", "pool size, tokens", "hit rate", "16 Ki", "80 %"):
            self.assertIn(name, texts)

    def test_memory_does_not_grow_with_a_pool_that_the_trace_cannot_fill(self):
        with tempfile.TemporaryFile() as output:
            arguments = [PROGRAM, "replay", TRACE, "--policy", "lru", "--pool-tokens", "131072,2147483647",
                         "--block-size", "8", "--json"]
            process = subprocess.Popen(arguments, stdout=output)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            small, absurd = parse_json(output.read())["runs"]

        self.assertEqual(process.returncode, 0)
        self.assertLess(usage.ru_maxrss, 500_000)  # KiB; the pool has 268 million blocks
        self.assertEqual(absurd["pool_tokens"], 2147483640)
        self.assertEqual((absurd["num_hit_tokens"], absurd["peak_running"]),
                         (small["num_hit_tokens"], small["peak_running"]))
        self.assertAlmostEqual(absurd["peak_use"] * absurd["pool_tokens"], small["peak_use"] * small["pool_tokens"],
                               places=3)

    def test_a_policy_or_pool_that_is_named_twice_runs_once(self):
        result = parse_json(self.replay(TRACE, "--policy", "lru,lru", "--pool-tokens", "16384,32768,16384", "--json"))

        self.assertEqual([(run["policy"], run["pool_tokens"]) for run in result["runs"]],
                         [("lru", 16384), ("lru", 32768)])

    def test_a_plot_that_cannot_be_written_is_refused_before_the_replay(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "trace.jsonl")
            shutil.copy(TRACE, trace)
            for exit_code, words, path in [(2, ["--plot", "empty"], ""), (2, ["--plot", "trace itself"], trace),
                                           (2, ["trace itself"], os.path.join(folder, ".", "trace.jsonl")),
                                           (1, ["cannot write", folder], folder)]:
                with self.subTest(path=path):
                    done = octavo("replay", trace, "--plot", path)
                    self.assertEqual((done.returncode, done.stdout), (exit_code, b""))
                    for word in words:
                        self.assertIn(word, done.stderr)
            self.assertEqual(pathlib.Path(trace).read_bytes(), pathlib.Path(TRACE).read_bytes())

    def test_a_name_that_is_not_utf8_becomes_a_picture_that_is(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(os.fsencode(folder), b"a\xff.jsonl")
            shutil.copy(TRACE, trace)
            path = os.path.join(folder, "plot.svg")
            self.replay(trace, "--policy", "lru", "--plot", path)
            self.assertIn("a\ufffd.jsonl: 50 requests", pathlib.Path(path).read_text(encoding="utf-8"))

    def test_bad_input_is_refused_in_one_line(self):
        for exit_code, words, arguments, stdin in [
            (1, ["none.jsonl"], ["none.jsonl"], b""),
            (1, ["standard input: line 2", "JSON"], ["-"], b'\n{"timestamp": 0'),
            (1, ["standard input: line 1 has -4 in input_length", "16777216"], ["-"],
             b'{"timestamp": 0, "input_length": -4, "output_length": 1, "hash_ids": []}'),
            (2, ["--policy", "'fifo'", "lru|cost_aware"], [TRACE, "--policy", "lru,fifo"], b""),
            (2, ["--pool-tokens", "63", "64"], [TRACE, "--pool-tokens", "128,63"], b""),
            (2, ["--block-size", "12"], [TRACE, "--block-size", "12"], b""),
            (2, ["--prefill-rate", "0", "[1, 1e12]"], [TRACE, "--prefill-rate", "0"], b""),
            (2, ["--decode-rate", "nan"], [TRACE, "--decode-rate", "nan"], b""),
            (2, ["trace"], [], b""),
            (1, ["/dev/zero: line 1 is longer than 16777216 bytes"], ["/dev/zero"], b""),
            (1, ["cannot write", "no-such-folder/plot.svg"],
             [TRACE, "--json", "--policy", "lru", "--plot", "no-such-folder/plot.svg"], b""),
        ]:
            with self.subTest(arguments=arguments):
                done = octavo("replay", *arguments, stdin=stdin)
                self.assertEqual(done.returncode, exit_code, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
