"""--profile: its table, its trace and its picture."""

import collections
import json
import pathlib
import re
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import program
from program import MODEL, octavo

RUN = ("run", "-m", MODEL, "-p", "Once upon a time there was a book", "--temperature", "0", "--ignore-eos", "--max-tokens",
       "12", "--threads", "2", "--max-model-len", "256")


class ProfileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_zones_of_one_thread_add_up_to_within_their_step(self):
        trace_file = self.folder / "trace.json"
        done = octavo(*RUN, "--profile", str(trace_file))
        self.assertEqual(done.returncode, 0, done.stderr)
        events = json.loads(trace_file.read_text())["traceEvents"]
        names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
        self.assertEqual(names, {0: "steps", 1: "thread 0", 2: "thread 1"})
        spans = [event for event in events if event["ph"] == "X"]
        steps = {event["args"]["step"]: event for event in spans if event["tid"] == 0}
        self.assertEqual([step["name"] for step in steps.values()], ["prefill"] + 11 * ["decode"])
        sums = collections.Counter()
        for event in spans:
            if event["tid"] != 0:
                sums[event["tid"], event["args"]["step"]] += event["dur"]
        self.assertEqual(len(sums), 2 * len(steps))
        for (tid, index), microseconds in sums.items():
            self.assertLessEqual(microseconds, steps[index]["dur"] + 1, f"track {tid}, step {index}")
        # The engine's thread is in a zone all the time but for the step's last moments.
        engine = sum(microseconds for (tid, _), microseconds in sums.items() if tid == 1)
        self.assertGreater(engine, 0.9 * sum(step["dur"] for step in steps.values()))

    def test_the_table_goes_to_stderr_and_leaves_the_answer_alone(self):
        done = octavo(*RUN, "--json", "--profile")
        self.assertEqual(done.returncode, 0, done.stderr)
        plain = octavo(*RUN, "--json")
        self.assertEqual(json.loads(done.stdout)["outputs"], json.loads(plain.stdout)["outputs"])
        self.assertRegex(done.stderr, r"prefill: 1 steps, \d+ tokens")
        self.assertRegex(done.stderr, r"decode: 11 steps, 11 tokens")
        shares = [float(share) for share in re.findall(r"(-?\d+\.\d+) %", done.stderr.split("decode:")[1])]
        self.assertAlmostEqual(sum(shares), 100, delta=0.2)

    def test_the_picture_is_well_formed_and_needs_nothing_else(self):
        picture = self.folder / "profile.svg"
        done = octavo("bench", "latency", "-m", MODEL, "--input-len", "64", "--output-len", "8", "--repeat", "1", "--max-model-len",
                      "256", "--profile", str(picture))
        self.assertEqual(done.returncode, 0, done.stderr)
        root = ElementTree.fromstring(picture.read_text())
        self.assertTrue(root.tag.endswith("svg"))
        texts = [element.text or "" for element in root.iter() if element.tag.endswith("}text")]
        self.assertTrue(any(text.startswith("octavo bench latency: ") for text in texts))
        self.assertTrue(any(text.startswith("A decode step of 1 token ") for text in texts))
        self.assertNotIn("href", picture.read_text())

    def test_a_file_of_another_kind_is_a_usage_error(self):
        done = octavo(*RUN, "--profile", "profile.txt")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--profile", done.stderr)
        self.assertIn("'profile.txt' ends with neither .json (a trace) nor .svg (a picture)", done.stderr)

    def test_a_file_that_cannot_be_written_is_refused_before_the_answer(self):
        done = octavo(*RUN, "--profile", str(self.folder / "nowhere" / "profile.svg"))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, b"")
        self.assertIn("nowhere", done.stderr)


if __name__ == "__main__":
    program.main()
