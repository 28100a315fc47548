"""`octavo bench serve` against a server: what it reports is what the server counted."""

import json
import subprocess

import server
from server import PROGRAM, ServerTest


class LoadToolTest(ServerTest):
    def bench(self, *arguments, code=0):
        command = [PROGRAM, "bench", "serve", "--base-url", self.server.base_url, "--json", *arguments]
        done = subprocess.run(command, capture_output=True, timeout=300, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout) if done.stdout else done.stderr.decode()

    def test_tokens_and_requests_are_those_that_the_server_counted(self):
        before = self.server.metrics()
        result = self.bench("--num-prompts", "12", "--random-input-len", "20", "--random-output-len", "5",
                            "--random-range-ratio", "0.5", "--max-concurrency", "4", "--goodput", "e2el:600000")
        after = self.server.metrics()

        def grown(name):
            return after[name] - before.get(name, 0)

        self.assertEqual(result["completed"], 12)
        self.assertEqual(result["failed"], 0)
        self.assertEqual(result["total_input_tokens"], grown("vllm:prompt_tokens_total"))
        self.assertEqual(result["total_output_tokens"], grown("vllm:generation_tokens_total"))
        self.assertEqual(result["total_cached_tokens"], grown("vllm:prompt_tokens_cached_total"))
        self.assertLessEqual(result["max_concurrent_requests"], 4)
        self.assertAlmostEqual(result["request_goodput"], result["request_throughput"])
        self.assertLessEqual(result["median_ttft_ms"], result["median_e2el_ms"])
        self.assertLessEqual(result["p50_itl_ms"], result["p99_itl_ms"])

    def test_a_shared_prefix_is_found_by_all_but_the_first(self):
        result = self.bench("--dataset-name", "shared-prefix", "--random-prefix-len", "64", "--num-prompts", "6",
                            "--random-input-len", "10", "--random-output-len", "2", "--max-concurrency", "1",
                            "--seed", "11")
        self.assertEqual(result["total_cached_tokens"], 5 * 64)

    def test_each_turn_finds_what_the_turns_before_had_sent(self):
        result = self.bench("--dataset-name", "multi-turn", "--num-turns", "3", "--num-prompts", "3", "--seed", "12",
                            "--random-input-len", "30", "--random-output-len", "4", "--save-detailed")
        self.assertEqual(result["input_lens"], [30, 64, 98])
        self.assertEqual(result["total_cached_tokens"], 30 + 64)
        self.assertEqual(result["output_lens"], [4, 4, 4])

    def test_requests_that_the_server_refuses_count_as_failed_and_are_shown(self):
        message = self.bench("--model", "another", "--num-prompts", "2", "--random-input-len", "5", code=1)
        self.assertEqual(message["failed"], 2)
        self.assertEqual(message["completed"], 0)

    def test_a_server_that_is_not_there_is_an_error(self):
        done = subprocess.run([PROGRAM, "bench", "serve", "--base-url", "http://127.0.0.1:1"],
                              capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"127.0.0.1:1", done.stderr)


if __name__ == "__main__":
    server.main()
