"""`octavo bench growth` and `octavo bench roofline`: the shape of what they print, never the speed."""

import os
import pathlib
import tempfile
import unittest
import xml.etree.ElementTree

from program import MODEL, main, octavo, parse_json


class BenchTest(unittest.TestCase):
    def bench(self, *arguments):
        done = octavo("bench", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_each_curve_of_growth_has_a_rate_for_every_size(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix = os.path.join(folder, "growth")
            curves = parse_json(self.bench("growth", "-m", MODEL, "--quick", "--json", "--plots", prefix))
            plots = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}

        sizes = {name: [size for size, _ in curve["points"]] for name, curve in curves.items()}
        self.assertEqual(sizes, {"context": [32, 64, 128], "batch": [1, 4], "waiting": [0, 10],
                                 "pool": [1000, 10000]})
        for curve in curves.values():
            self.assertTrue(all(rate > 0 for _, rate in curve["points"]))
        self.assertEqual(sorted(plots), [f"growth-{name}.svg" for name in sorted(sizes)])
        for text in plots.values():
            self.assertTrue(xml.etree.ElementTree.fromstring(text).tag.endswith("svg"))

    def test_growth_refuses_what_it_cannot_measure_or_write_before_it_measures(self):
        for word, arguments in (("--max-model-len is 120", ["--max-model-len", "120"]),
                                ("/nowhere/plot-context.svg", ["--plots", "/nowhere/plot"])):
            with self.subTest(arguments=arguments):
                done = octavo("bench", "growth", "-m", MODEL, "--quick", *arguments)
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(done.stdout, b"")
                self.assertIn(word, done.stderr)

    def test_a_roofline_has_reads_and_peaks(self):
        roofline = parse_json(self.bench("roofline", "--threads", "1", "--seconds", "0.001", "--json"))

        self.assertTrue(all(rate["bytes_per_s"] > 0 for rate in roofline["reads"]))
        self.assertTrue(any(rate["name"].startswith("fp32") for rate in roofline["peaks"]))


if __name__ == "__main__":
    main()
