"""Measures every metric of every engine in one interleaved run."""

import dataclasses
import sys
import time

from peers.base import NotMeasured


@dataclasses.dataclass
class Cell:
    """One metric of one engine: tokens/s of each repetition, or why there are none."""

    samples: list = dataclasses.field(default_factory=list)
    reason: str | None = None
    seconds: list = dataclasses.field(default_factory=list)  # that each repetition took


def order(engines, turn):
    """The engines, another one first at each turn, so that a machine that slows down slows all alike."""
    start = turn % len(engines) if engines else 0
    return engines[start:] + engines[:start]


def say(text):
    print(text, file=sys.stderr, flush=True)


def clock(seconds):
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


class Progress:
    """Lines on stderr, with an estimate: what a cell took before, or else the mean of all."""

    def __init__(self, cells, repeat):
        self._cells, self._repeat, self._start = cells, repeat, time.monotonic()

    def left(self):
        """Seconds, or None before anything was measured."""
        spent = [seconds for row in self._cells.values() for cell in row.values() for seconds in cell.seconds]
        if not spent:
            return None
        mean = sum(spent) / len(spent)
        total = 0.0
        for row in self._cells.values():
            for cell in row.values():
                if cell.reason is None:
                    each = sum(cell.seconds) / len(cell.seconds) if cell.seconds else mean
                    total += each * (self._repeat - len(cell.seconds))
        return total

    def show(self, metric, engine, repetition, text):
        left = self.left()
        remaining = "" if left is None else f", about {clock(left)} left"
        say(f"[{clock(time.monotonic() - self._start)}{remaining}] {metric.key} {repetition + 1}/{self._repeat} "
            f"{engine.name}: {text}")


def prepare(engines):
    """{key: why it cannot be measured} of those that cannot."""
    failures = {}
    for engine in engines:
        say(f"preparing {engine.name}")
        try:
            engine.prepare()
        except (NotMeasured, OSError, ValueError) as error:
            failures[engine.key] = str(error)
            say(f"  {engine.name} is left out: {error}")
    return failures


def measure_cell(cell, engine, metric, seed):
    """Adds a sample, or the reason why this cell has none from now on."""
    begin = time.monotonic()
    try:
        cell.samples.append(engine.measure(metric, seed))
        text = f"{cell.samples[-1]:.1f} tokens/s"
    except (NotMeasured, OSError, ValueError) as error:
        cell.samples, cell.reason = [], str(error)
        text = f"- ({error})"
    cell.seconds.append(time.monotonic() - begin)
    return text


def turns(metrics, repeat):
    """(metric, repetition) in the order of the run: by KV format, because some engines start anew for another one.

    16 bits come beside the metrics that name none, for most engines come with those.
    """
    by_format = sorted(metrics, key=lambda metric: (None, 16, 8).index(metric.kv_bits))
    return [(metric, repetition) for metric in by_format for repetition in range(repeat)]


def measure(metrics, engines, repeat, failures):
    """{metric key: {engine key: Cell}}; an engine that is named in `failures` gets that reason in every row."""
    cells = {metric.key: {engine.key: Cell(reason=failures.get(engine.key)) for engine in engines} for metric in metrics}
    progress = Progress(cells, repeat)
    try:
        for turn, (metric, repetition) in enumerate(turns(metrics, repeat)):
            for engine in order(engines, turn):
                cell = cells[metric.key][engine.key]
                if cell.reason is None:
                    text = measure_cell(cell, engine, metric, seed=1 + turn)
                    progress.show(metric, engine, repetition, text)
    except KeyboardInterrupt:
        say("interrupted: what was measured is reported")
        for cell in (cell for row in cells.values() for cell in row.values()):
            if not cell.samples and cell.reason is None:
                cell.reason = "the run was interrupted"
    return cells
