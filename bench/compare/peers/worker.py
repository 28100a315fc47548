"""Engines that are Python packages: a process of their own environment does the work, piece by piece."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import threading

from machine import pinned
from peers.base import COMMAND_SECONDS, Engine, NotMeasured, first_lines

WORKERS = pathlib.Path(__file__).resolve().parent.parent / "workers"
END_SECONDS = 20


class Worker:
    """An engine's process that answers pieces of work, as workers/stepping.py does. NotMeasured if it does not start."""

    def __init__(self, command, environment, log):
        self._log = log
        with open(log, "a", encoding="utf-8") as file:
            self._process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=file, text=True, env={**os.environ, **environment}, start_new_session=True)
        try:
            self.about = self._answer("ready")
        except NotMeasured:
            self.close()
            raise

    def measure(self, work):
        try:
            self._process.stdin.write(json.dumps(work) + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it has ended: the answer says so
        return self._answer("tokens_per_s")

    def _answer(self, key):
        watchdog = threading.Timer(COMMAND_SECONDS, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline()
        watchdog.cancel()
        message = json.loads(line) if line else {}
        if key in message:
            return message[key]
        why = message.get("error")
        if why is None:  # it ended without a word on the wire
            why = f"it ended with code {self._process.wait()}: {first_lines(tail(self._log))}"
        raise NotMeasured(first_lines(why))

    def has_ended(self):
        return self._process.poll() is not None

    def close(self):
        for ending in (signal.SIGTERM, signal.SIGKILL):  # its children too
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, ending)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_SECONDS)
                break
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()


def tail(path, size=20000):
    with open(path, "rb") as file:
        file.seek(max(os.path.getsize(path) - size, 0))
        return file.read().decode(errors="replace")


class WorkerEngine(Engine):
    """Keeps one worker, with the options that the metric at hand needs; metrics in turn make it start anew."""

    script = ""

    def __init__(self, setup):
        super().__init__(setup)
        self.python = None
        self._worker = None
        self._options = None
        self._broken = {}  # {options: why no worker starts with them}
        self._version = None

    def options(self, metric):
        """What the worker's engine is made with: a dictionary."""
        raise NotImplementedError

    def environment(self):
        return {} if self.setup.amx else {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}

    def measure(self, metric, seed):
        options = json.dumps(self.options(metric), sort_keys=True)
        if options != self._options:
            self._start(options)
        try:
            return self._worker.measure({
                "key": metric.key, "kind": metric.kind, "prompt_tokens": metric.prompt_tokens, "sequences": metric.sequences,
                "shared_tokens": metric.shared_tokens, "output_tokens": metric.output_tokens, "seed": seed})
        finally:
            if self._worker.has_ended():  # the next metric gets a new one
                self.close()

    def _start(self, options):
        self.close()
        if options in self._broken:
            raise NotMeasured(self._broken[options])
        command = [*pinned(self.setup.threads), self.python, WORKERS / self.script, options]
        try:
            self._worker = Worker(command, self.environment(), self.setup.log(self.key))
        except NotMeasured as error:
            self._broken[options] = str(error)
            raise
        self._options = options
        self._version = self._worker.about

    def about(self):
        return {"version": self._version or "unknown", "environment": self.environment()}

    def close(self):
        if self._worker:
            self._worker.close()
        self._worker = self._options = None
