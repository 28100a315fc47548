"""The order of a run, and what is made of its figures: ratios, tables, the plot."""

import contextlib
import io
import unittest
import xml.etree.ElementTree

import scripts  # noqa: F401  (first: it finds the others)

import measure
import metrics
import plot
import report
from peers.base import Engine, NotMeasured

DECODE, PREFILL = metrics.METRICS[0], metrics.METRICS[4]
NAMES = {"octavo": "octavo", "a": "A & B", "c": "C"}


class Fake(Engine):
    def __init__(self, key, values, calls):
        super().__init__(None)
        self.key = self.name = key
        self.values, self.calls = list(values), calls

    def prepare(self):
        if not self.values:
            raise NotMeasured("it does not build")

    def measure(self, metric, seed):
        self.calls.append(self.key)
        value = self.values.pop(0)
        if value == "Ctrl-C":
            raise KeyboardInterrupt
        if value is None:
            raise NotMeasured("it fell over")
        return value


def cells(ours, **peers):
    found = {"octavo": measure.Cell(samples=ours)}
    found.update({key: measure.Cell(**value) for key, value in peers.items()})
    return found


def about(**changes):
    return {"names": NAMES, "quick": False, "repeat": 3, "threads": 2, "model": "m.gguf", "date": "2026-01-02T03:04:05+00:00", "amx": True,
            "engines": {"octavo": {"version": "octavo 1", "checkout": "abc"}, "a": {"version": "x", "environment": {"E": "1"}}, "c": {}},
            "machine": {"model": "CPU <1>", "cpus": 2, "flags": ["avx2"], "kernel": "6.1", "load_average": (0.5, 0, 0)}, **changes}


class MeasureTest(unittest.TestCase):
    def run_fakes(self, values, repeat):
        calls = []
        engines = [Fake(key, figures, calls) for key, figures in values.items()]
        with contextlib.redirect_stderr(io.StringIO()) as shown:
            failures = measure.prepare(engines)
            found = measure.measure([DECODE], engines, repeat, failures)
        return calls, found[DECODE.key], shown.getvalue()

    def test_each_repetition_begins_with_another_engine(self):
        calls, found, shown = self.run_fakes({"octavo": [1, 2], "a": [3, 4], "c": [5, 6]}, 2)
        self.assertEqual(calls, ["octavo", "a", "c", "a", "c", "octavo"])
        self.assertEqual(found["a"].samples, [3, 4])
        self.assertIn("decode 2/2 octavo: 2.0 tokens/s", shown)
        self.assertIn("left", shown)

    def test_an_engine_that_fails_is_not_asked_again(self):
        calls, found, _ = self.run_fakes({"octavo": [1, 2, 3], "a": [4, None, 6]}, 3)
        self.assertEqual(calls.count("a"), 2)
        self.assertEqual((found["a"].samples, found["a"].reason), ([], "it fell over"))
        self.assertEqual(found["octavo"].samples, [1, 2, 3])

    def test_an_engine_that_does_not_build_has_a_reason_in_every_row(self):
        calls, found, _ = self.run_fakes({"octavo": [1], "a": []}, 1)
        self.assertEqual(calls, ["octavo"])
        self.assertEqual(found["a"].reason, "it does not build")

    def test_an_interrupted_run_keeps_what_it_has(self):
        calls, found, _ = self.run_fakes({"octavo": [1, 2], "a": ["Ctrl-C"]}, 2)
        self.assertEqual(calls, ["octavo", "a"])
        self.assertEqual((found["octavo"].samples, found["a"].reason), ([1], "the run was interrupted"))

    def test_metrics_of_one_kv_format_follow_each_other(self):
        keys = [metric.key for metric, _ in measure.turns(metrics.METRICS, 1)]
        self.assertEqual(keys[-4:], ["decode-4k", "prefill-4k", "decode-4k-kv8", "prefill-4k-kv8"])
        self.assertEqual(keys[:3], ["decode", "decode-1k", "prefill-512"])

    def test_times_are_shown_in_hours_only_when_there_are_some(self):
        self.assertEqual((measure.clock(65), measure.clock(3661)), ("1:05", "1:01:01"))


class ReportTest(unittest.TestCase):
    def setUp(self):
        self.rows = report.rows_of([DECODE, PREFILL], {
            DECODE.key: cells([30, 20, 40], a={"samples": [10, 10, 10]}, c={"samples": [15, 5, 20]}),
            PREFILL.key: cells([100.0], a={"reason": "too long"}, c={"samples": [200.0]})})

    def test_ratios_are_taken_repetition_by_repetition(self):
        self.assertEqual(self.rows[0]["ratios"]["c"], {"median": 2, "min": 2, "max": 4})
        self.assertEqual(self.rows[0]["figures"]["octavo"], {"median": 30, "min": 20, "max": 40, "samples": [30, 20, 40]})

    def test_the_best_peer_is_the_one_with_the_highest_median(self):
        self.assertEqual((self.rows[0]["best"], self.rows[1]["best"]), ("c", "c"))

    def test_tables_show_a_dash_and_the_reason_where_there_is_no_figure(self):
        text = report.markdown(about(), self.rows)
        self.assertIn("| decode, short context | 3.00 | 2.00 | 2.00 (C) |", text)
        self.assertIn("| prefill of 512 tokens | - | 0.50 | 0.50 (C) |", text)
        self.assertIn("* A & B, prefill-512: too long", text)
        self.assertIn("* A & B: x\n", text)
        self.assertIn("* octavo: octavo 1, checkout abc", text)
        self.assertIn("| 30 (20 to 40) | 10 (10 to 10) | 15 (5 to 20) |", text)
        self.assertNotIn("quick", text)
        self.assertNotIn("AMX", text)

    def test_a_quick_run_and_one_without_amx_say_so(self):
        text = report.markdown(about(quick=True, amx=False), self.rows)
        self.assertIn("A quick run", text)
        self.assertIn("kept from AMX", text)

    def test_without_figures_of_ours_there_are_no_ratios(self):
        row = report.row_of(DECODE, {"octavo": measure.Cell(reason="no"), "a": measure.Cell(samples=[1.0])})
        self.assertEqual((row["ratios"], row["best"]), ({}, "a"))
        self.assertIn("| - | - | - |", report.ratio_table([row], NAMES))

    def test_ratios_have_three_digits(self):
        self.assertEqual([report.ratio_text(value) for value in (0.5, 2.625, 9.996, 14.44, 151.2)], ["0.50", "2.62", "10.0", "14.4", "151"])

    def test_the_plot_is_well_formed_has_a_bar_for_each_ratio_and_asks_nothing_of_elsewhere(self):
        text = plot.svg(about(), self.rows)
        root = xml.etree.ElementTree.fromstring(text)
        space = "{http://www.w3.org/2000/svg}"
        bars = [rect for rect in root.iter(space + "rect") if rect.find(space + "title") is not None]
        self.assertEqual(len(bars), 3)
        self.assertTrue(all(float(rect.get("width")) >= 1 for rect in bars))
        self.assertNotIn("href", text)
        self.assertNotIn("url(", text)
        self.assertIn("prefers-color-scheme:dark", text)

    def test_bars_grow_from_one_to_both_sides(self):
        scale = plot.Scale([0.5, 3.0])
        self.assertEqual(scale.ticks(), [0.5, 1, 2, 4])
        self.assertLess(scale.x(0.5), scale.x(1))
        self.assertLess(scale.x(1), scale.x(3))

    def test_a_plot_without_any_ratio_is_a_plot_still(self):
        xml.etree.ElementTree.fromstring(plot.svg(about(), []))


if __name__ == "__main__":
    unittest.main()
