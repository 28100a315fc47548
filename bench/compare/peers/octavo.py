"""Octavo itself, through its own bench commands: each process does the work twice, and the second time counts."""

import json
import shlex

from machine import commit, pinned
from peers.base import Engine, NotMeasured, run


class Octavo(Engine):
    key = name = "octavo"

    def __init__(self, setup, program, flags=""):
        super().__init__(setup)
        self._program, self._flags = program, shlex.split(flags)
        self._has_int8_kv = self._has_throughput = False
        self._commit = commit() or "unknown"

    def prepare(self):
        self._has_throughput = has_command("throughput", run([self._program, "bench", "--help"])[0])
        self._has_int8_kv = has_int8_kv(run([self._program, "bench", "latency", "--help"])[0])

    def command(self, metric):
        command = [*pinned(self.setup.threads), self._program, "bench"]
        if metric.kind in ("prefill", "decode"):
            # The first output token belongs to the prefill, so decoding n tokens needs n + 1.
            command += ["latency", "--input-len", metric.prompt_tokens, "--output-len", max(metric.output_tokens + 1, 2)]
        else:
            command += ["throughput", "--num-prompts", metric.sequences, "--prefix-len", metric.shared_tokens,
                        "--input-len", metric.prompt_tokens, "--output-len", metric.output_tokens]
        command += ["--kv-cache-dtype", "int8" if metric.kv_bits == 8 else "float16"]
        command += ["-m", self.setup.model, "--threads", self.setup.threads, "--repeat", 2, "--json", *self._flags]
        return [str(word) for word in command]

    def measure(self, metric, seed):
        if metric.kv_bits == 8 and not self._has_int8_kv:
            raise NotMeasured("not in this build: --kv-cache-dtype knows no int8")
        if metric.kind in ("batch", "requests") and not self._has_throughput:
            raise NotMeasured("not in this build: there is no `octavo bench throughput`")
        return tokens_per_s(metric, run(self.command(metric), log=self.setup.log(self.key))[0])

    def about(self):
        return {"version": run([self._program, "--version"])[0].strip().splitlines()[0], "checkout": self._commit}


def has_command(name, help_text):
    return any(line.split()[:1] == [name] for line in help_text.splitlines())


def has_int8_kv(help_text):
    """Whether a command's help names int8 among the storages of K and V."""
    lines = [line for line in help_text.splitlines() if "--kv-cache-dtype" in line]
    return any("int8" in word.split("|") for line in lines for word in line.split())


def tokens_per_s(metric, text):
    """Of what the bench command printed."""
    key = {"prefill": "prefill_tokens_per_s", "decode": "decode_tokens_per_s", "batch": "decode_tokens_per_s",
           "requests": "output_tokens_per_s"}[metric.kind]
    try:
        value = json.loads(text)["runs"][-1][key]
    except (ValueError, KeyError, IndexError) as error:
        raise NotMeasured(f"its JSON holds no {key}") from error
    if value <= 0:
        raise NotMeasured("the sequences were never all decoding; give it more output tokens or memory")
    return value
