"""octavo bench startup: fresh processes, their times by phase, and their memory against its aim."""

import json
import unittest

import program
from program import MODEL, octavo

PHASES = ("program_s", "open_s", "text_s", "weights_s", "rest_s")


class StartupTest(unittest.TestCase):
    def test_phases_add_up_and_the_file_is_not_held_beside_its_weights(self):
        done = octavo("bench", "startup", "-m", MODEL, "--threads", "2", "--repeat", "1", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        for sample in (result["cold"], result["warm"], *result["warm_runs"]):
            phases = sum(sample[phase] for phase in PHASES)
            self.assertLessEqual(phases, sample["ready_s"])
            self.assertGreater(phases, 0.5 * sample["ready_s"])
        memory = result["memory"]
        terms = sum(memory[term] for term in ("file_bytes", "file_share_bytes", "program_bytes", "activation_bytes"))
        self.assertEqual(memory["limit_ready_bytes"], terms)
        self.assertEqual(memory["limit_prompt_bytes"], terms + memory["kv_bytes"])
        self.assertLessEqual(memory["peak_ready_bytes"], memory["limit_ready_bytes"])

    def test_the_text_names_every_term_of_the_aim(self):
        done = octavo("bench", "startup", "-m", MODEL, "--repeat", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = done.stdout.decode()
        for line in ("weights read and packed", "ready", "+ 15 % of it", "+ activations and logits", "+ K and V of 512 tokens"):
            self.assertIn(f"  {line}", text)
        self.assertRegex(text, r"peak when ready +\d+\.\d MB of \d+\.\d MB: holds")

    def test_a_populated_cache_is_in_ram_before_the_first_request(self):
        pool = swap = 200_000_000
        peaks = []
        for flags in ((), ("--populate-kv-cache",)):
            done = octavo("bench", "startup", "-m", MODEL, "--kv-cache-memory-bytes", str(pool),
                          "--swap-space-bytes", str(swap), "--repeat", "1", "--json", *flags)
            self.assertEqual(done.returncode, 0, done.stderr)
            peaks.append(json.loads(done.stdout)["memory"]["peak_ready_bytes"])
        self.assertGreater(peaks[1] - peaks[0], 0.9 * (pool + swap))

    def test_what_no_engine_can_be_made_of_is_an_error_once(self):
        done = octavo("bench", "startup", "-m", "/nowhere/model.gguf")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/model.gguf", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_a_context_that_holds_no_prompt_is_a_usage_error_once(self):
        done = octavo("bench", "startup", "-m", MODEL, "--max-model-len", "1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--max-model-len is 1", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    program.main()
