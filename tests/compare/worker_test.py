"""The workers of Python engines: what they count, and what comes of one that fails."""

import pathlib
import sys
import tempfile
import time
import unittest

import scripts  # noqa: F401  (first: it finds the others)

import metrics
import stepping
from peers.base import NotMeasured, Setup
from peers.worker import WorkerEngine

WORK = {"key": "k", "kind": "decode", "prompt_tokens": 5, "shared_tokens": 0, "output_tokens": 3, "sequences": 1, "seed": 1}
FAKE = '''
import sys
sys.path.insert(0, {workers!r})
import stepping

class Fake:
    vocab_size = 1000
    def __init__(self, options):
        print("noise on standard output")
        if options["kv_bits"] == 8:
            raise ValueError("error: no 8-bit KV here")
    def about(self):
        return "fake 1"
    def submit(self, prompts, output_tokens):
        if len(prompts[0]) == 512 and len(prompts) == 1:
            sys.exit("error: out of memory")
        self.left = [output_tokens] * len(prompts)
    def is_running(self):
        return any(self.left)
    def step(self):
        self.left = [count - 1 for count in self.left]
        return [(index, 1) for index in range(len(self.left))]

stepping.serve(Fake)
'''


class Steps:
    """An engine whose sequences get their tokens as a script says, one step every 20 ms."""

    vocab_size = 1000

    def __init__(self, steps):
        self._steps = list(steps)

    def submit(self, prompts, output_tokens):
        self.prompts, self.output_tokens = prompts, output_tokens

    def is_running(self):
        return bool(self._steps)

    def step(self):
        time.sleep(0.02)
        return self._steps.pop(0)


class SteppingTest(unittest.TestCase):
    def test_prompts_share_what_is_asked_and_differ_with_the_seed(self):
        work = {**WORK, "sequences": 2, "shared_tokens": 4}
        first, second = stepping.prompts(work, 1000, 1)
        self.assertEqual(first[:4], second[:4])
        self.assertNotEqual(first[4:], second[4:])
        self.assertEqual((len(first), len(second)), (9, 9))
        self.assertNotEqual(first, stepping.prompts(work, 1000, 2)[0])
        self.assertTrue(all(250 <= token < 750 for token in first + second))

    def test_decode_is_counted_while_all_sequences_decode(self):
        self.assertAlmostEqual(stepping.decode_rate([[1, 2, 3, 4], [2, 3.5, 5]]), 3 / 2)
        with self.assertRaisesRegex(RuntimeError, "never all decoding"):
            stepping.decode_rate([[1, 2], [3, 4]])

    def test_the_token_that_ends_the_prefill_is_not_decoded(self):
        engine = Steps([[(0, 1)], [(0, 1)], [(0, 2)]])
        rate = stepping.measure(engine, WORK, seed=1)
        self.assertEqual(engine.output_tokens, 4)
        self.assertGreater(rate, 3 / 0.2)
        self.assertLess(rate, 3 / 0.04 + 1)

    def test_prefill_counts_prompt_tokens_to_the_first_output_token(self):
        rate = stepping.measure(Steps([[], [(0, 1)], [(0, 1)]]), {**WORK, "kind": "prefill", "output_tokens": 0}, seed=1)
        self.assertLess(rate, 5 / 0.04 + 1)

    def test_requests_count_all_output_tokens_over_the_whole_time(self):
        work = {**WORK, "kind": "requests", "sequences": 2, "output_tokens": 2}
        rate = stepping.measure(Steps([[(0, 1)], [(0, 1), (1, 1)], [(1, 1)]]), work, seed=1)
        self.assertLess(rate, 4 / 0.06 + 1)

    def test_a_sequence_that_ends_early_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "sequence 0 has 2 tokens, not 4"):
            stepping.measure(Steps([[(0, 2)]]), WORK, seed=1)


class FakeEngine(WorkerEngine):
    key = name = "fake"

    def __init__(self, setup, script):
        super().__init__(setup)
        self.python, self.script = sys.executable, script

    def options(self, metric):
        return {"kv_bits": metric.kv_bits}


class WorkerTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        path = pathlib.Path(self.folder.name) / "fake_worker.py"
        path.write_text(FAKE.format(workers=str(scripts.COMPARE / "workers")), encoding="utf-8")
        self.engine = FakeEngine(Setup("m.gguf", 1, pathlib.Path(self.folder.name)), path)
        self.metrics = {metric.key: metric for metric in metrics.METRICS}

    def tearDown(self):
        self.engine.close()
        self.folder.cleanup()

    def test_one_worker_answers_metric_after_metric(self):
        for key in ("decode", "batch-4", "decode"):
            self.assertGreater(self.engine.measure(self.metrics[key], 1), 0)
        self.assertEqual(self.engine.about()["version"], "fake 1")
        self.assertIn("noise", (pathlib.Path(self.folder.name) / "logs" / "fake.log").read_text(encoding="utf-8"))

    def test_a_worker_that_does_not_start_gives_its_error_each_time(self):
        for _ in range(2):
            with self.assertRaisesRegex(NotMeasured, "no 8-bit KV here"):
                self.engine.measure(self.metrics["prefill-4k-kv8"], 1)

    def test_a_worker_that_ends_is_replaced_for_the_next_metric(self):
        with self.assertRaisesRegex(NotMeasured, "out of memory"):
            self.engine.measure(self.metrics["prefill-512"], 1)
        self.assertGreater(self.engine.measure(self.metrics["decode"], 1), 0)


if __name__ == "__main__":
    unittest.main()
