#!/usr/bin/env python3
"""One stream against llama.cpp on the same file and threads, in one interleaved run.

  bench/compare/single_stream.py --octavo build/release/octavo --llama-bench PATH/llama-bench \\
      -m MODEL.gguf --threads 2 --repeat 5 [--json FILE]

Each repetition of a test runs both programs one after the other, and the next repetition swaps
their order, so that a machine that slows down slows both. Each program warms up before the pass
that counts. Reported: the median, least and most tokens/s of each, and the median of the ratios
pair by pair. Only the ratios may be quoted. Needs Python 3.9 alone; how to build llama-bench is in
docs/guides/measuring.md.
"""

import argparse
import dataclasses
import datetime
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys

FLAGS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8")


@dataclasses.dataclass(frozen=True)
class Test:
    name: str
    prompt_tokens: int  # measured as prefill if output_tokens is 0, else the context before decode
    output_tokens: int


TESTS = [
    Test("decode", 1, 128),
    Test("decode at 4,096 tokens", 4096, 32),
    Test("prefill of 512 tokens", 512, 0),
]


def run_json(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)}: exit code {done.returncode}\n{done.stderr.strip()}")
    return json.loads(done.stdout)


class Octavo:
    """`octavo bench latency --json`: the second of two runs of one process."""

    name = "octavo"

    def __init__(self, args):
        self._command = [args.octavo, "bench", "latency", "-m", args.model]
        self._command += ["--threads", str(args.threads), "--repeat", "2", "--json"]
        self._command += shlex.split(args.octavo_flags)

    def command(self, test):
        # The first output token belongs to the prefill, so decoding n tokens needs n + 1.
        output = str(test.output_tokens + 1 if test.output_tokens else 2)
        return self._command + ["--input-len", str(test.prompt_tokens), "--output-len", output]

    def tokens_per_s(self, test):
        run = run_json(self.command(test))["runs"][-1]
        return run["decode_tokens_per_s" if test.output_tokens else "prefill_tokens_per_s"]


class LlamaBench:
    """llama-bench: the last of two samples; it warms up by itself besides."""

    name = "llama.cpp"

    def __init__(self, args):
        self._command = [args.llama_bench, "-m", args.model, "-t", str(args.threads), "-fa", "1"]
        self._command += ["-r", "2", "-o", "json"] + shlex.split(args.llama_flags)

    def command(self, test):
        if test.output_tokens == 0:
            return self._command + ["-p", str(test.prompt_tokens), "-n", "0"]
        depth = test.prompt_tokens if test.prompt_tokens > 1 else 0
        return self._command + ["-p", "0", "-n", str(test.output_tokens), "-d", str(depth)]

    def tokens_per_s(self, test):
        result = run_json(self.command(test))
        self.commit = result[0].get("build_commit")
        return result[0]["samples_ts"][-1]


def machine():
    lscpu = dict(
        line.split(":", 1)
        for line in subprocess.run(["lscpu"], capture_output=True, text=True).stdout.splitlines()
        if ":" in line
    )
    flags = lscpu.get("Flags", "").split()
    return {
        "model": lscpu.get("Model name", platform.processor()).strip(),
        "cpus": os.cpu_count(),
        "flags": [flag for flag in FLAGS if flag in flags],
        "load_average": os.getloadavg(),
    }


def commit():
    folder = os.path.dirname(os.path.abspath(__file__))

    def git(*arguments):
        done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True)
        return done.stdout.strip()

    head = git("rev-parse", "--short=12", "HEAD") or "unknown"
    return head + ("+changes" if git("status", "--porcelain", "--untracked-files=no") else "")


def measure(test, engines, repeat):
    """{engine name: [tokens/s per repetition]}, the order of the engines swapped each time."""
    samples = {engine.name: [] for engine in engines}
    for repetition in range(repeat):
        for engine in engines if repetition % 2 == 0 else reversed(engines):
            samples[engine.name].append(engine.tokens_per_s(test))
        pair = "  ".join(f"{name} {values[-1]:.1f}" for name, values in samples.items())
        print(f"  {test.name} {repetition + 1}/{repeat}: {pair}", file=sys.stderr, flush=True)
    return samples


def summary(samples, ours, peer):
    ratios = [a / b for a, b in zip(samples[ours], samples[peer])]
    return {
        "samples": samples,
        "median": {name: statistics.median(values) for name, values in samples.items()},
        "ratios": ratios,
        "ratio": statistics.median(ratios),
    }


def print_table(results):
    print(f"{'test':24s} {'engine':10s} {'median':>9s} {'min':>9s} {'max':>9s}  tokens/s")
    for name, result in results.items():
        for engine, values in result["samples"].items():
            median = result["median"][engine]
            print(f"{name:24s} {engine:10s} {median:9.1f} {min(values):9.1f} {max(values):9.1f}")
        least, most = min(result["ratios"]), max(result["ratios"])
        print(f"{name:24s} {'ratio':10s} {result['ratio']:9.2f} {least:9.2f} {most:9.2f}")


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--octavo", required=True)
    parser.add_argument("--llama-bench", required=True)
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", choices=[test.name for test in TESTS], action="append")
    parser.add_argument("--octavo-flags", default="", help="more flags for octavo, in one string")
    parser.add_argument("--llama-flags", default="", help="more flags for llama-bench")
    parser.add_argument("--json", help="also write everything to this file")
    return parser.parse_args()


def main():
    args = parse()
    engines = [Octavo(args), LlamaBench(args)]
    about = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "command": shlex.join(sys.argv),
        "machine": machine(),
        "threads": args.threads,
        "repeat": args.repeat,
        "model": os.path.basename(args.model),
    }
    tests = [test for test in TESTS if not args.only or test.name in args.only]
    results = {}
    for test in tests:
        samples = measure(test, engines, args.repeat)
        results[test.name] = summary(samples, engines[0].name, engines[1].name)
    about["llama_cpp_commit"] = engines[1].commit
    about["commands"] = {
        test.name: {engine.name: shlex.join(engine.command(test)) for engine in engines}
        for test in tests
    }

    info = about["machine"]
    print(f"{info['model']}, {info['cpus']} processors, {' '.join(info['flags'])}")
    load = info["load_average"][0]
    print(f"load average before {load:.2f}; {args.threads} threads; {about['model']}")
    print(f"octavo {about['commit']}, llama.cpp {about['llama_cpp_commit']}")
    print_table(results)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({**about, "results": results}, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
