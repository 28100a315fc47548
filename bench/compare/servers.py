#!/usr/bin/env python3
"""Servers under the same load in one run: octavo serve, llama-server, and vLLM's CPU server.

  bench/compare/servers.py --octavo build/release/octavo -m MODEL.gguf --threads 2 \\
      --llama-server PATH/llama-server --vllm-python VENV/bin/python --vllm-model FOLDER [--json FILE]

Prompts of 380 tokens, answers of 64: 1, 4 and 16 users, each sending its next request when it has its
answer; prompts that share nothing, and prompts whose first 342 tokens (90 %) are the same. Each server
is started anew in each repetition, warmed up, and given every load with prompts of its own; the next
repetition takes the servers in the opposite order. All take their cache's memory when they start.
`octavo bench serve` is the client of all. Reported: medians, and the ratio of ours to the best of the
others (of times: how many times shorter). Only ratios may be quoted. All servers run on the same
processors. vLLM's CPU build has no 4-bit weights: its are the same ones, expanded to bfloat16. How to
build and install the peers is in docs/guides/measuring.md.
"""

import argparse
import dataclasses
import datetime
import json
import os
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

from machine import commit, machine

PROMPT, SHARED, ANSWER = 380, 342, 64
CONTEXT = 512  # of one request
START_SECONDS = 300
MOST_ATTEMPTS = 4  # of a load whose requests do not all end well


@dataclasses.dataclass(frozen=True)
class Load:
    users: int
    requests: int
    shared: bool

    @property
    def name(self):
        return f"{self.users} user{'s' if self.users > 1 else ''}, {'90 % shared' if self.shared else 'unshared'}"


LOADS = [Load(users, requests, shared) for users, requests in ((1, 8), (4, 16), (16, 32)) for shared in (False, True)]
METRICS = {  # of the client's report: (key, whether more is better)
    "output tokens/s": ("output_throughput", True),
    "TTFT p50, ms": ("median_ttft_ms", False),
    "TTFT p99, ms": ("p99_ttft_ms", False),  # of so few requests: about the longest
}


class Peer:
    """A server's command line; PORT stands for the port."""

    def __init__(self, name, command, environment=None):
        self.name, self.command, self.environment = name, [str(word) for word in command], environment or {}


def processors(args):
    return sorted(os.sched_getaffinity(0))[:args.threads]


def peers(args):
    found = [Peer("octavo", [args.octavo, "serve", "-m", args.model, "--threads", args.threads, "--port", "PORT",
                             "--max-model-len", 2 * CONTEXT, "--disable-log-requests", "--populate-kv-cache",
                             *shlex.split(args.octavo_flags)])]
    if args.llama_server:
        found.append(Peer("llama.cpp", [args.llama_server, "-m", args.model, "-t", args.threads, "--port", "PORT", "-np", 16,
                                        "-c", 16 * CONTEXT, "-fa", "on",
                                        *shlex.split(args.llama_flags)]))
    if args.vllm_python:
        found.append(Peer("vLLM", [args.vllm_python, "-m", "vllm.entrypoints.openai.api_server", "--model", args.vllm_model,
                                   "--port", "PORT", "--max-model-len", 2 * CONTEXT, "--dtype", "bfloat16",
                                   *shlex.split(args.vllm_flags)],
                          {"VLLM_CPU_KVCACHE_SPACE": "2",
                           "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, processors(args)))}))
    return found


class Server:
    """A peer's process. Use as a context manager; `error` says why it did not start."""

    def __init__(self, peer, threads, log):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = ["taskset", "-c", ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))]
        command += [str(port) if word == "PORT" else word for word in peer.command]
        self.process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **peer.environment},
                                        start_new_session=True)
        self.error = self._wait()

    def _wait(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                return f"it ended with code {self.process.returncode}"
            try:
                urllib.request.urlopen(self.url + "/health", timeout=5).close()
                return None
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        return f"it was not ready after {START_SECONDS} s"

    def model(self):
        with urllib.request.urlopen(self.url + "/v1/models", timeout=5) as answer:
            return json.load(answer)["data"][0]["id"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for ending in (signal.SIGTERM, signal.SIGKILL):  # its children too, when it has ended already
            try:
                os.killpg(self.process.pid, ending)
                self.process.wait(30)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        self.process.wait()


def bench(args, server, load, seed):
    command = [args.octavo, "bench", "serve", "--base-url", server.url, "--model", server.model(), "--json", "--num-prompts",
               load.requests, "--max-concurrency", load.users, "--random-output-len", ANSWER, "--seed", seed]
    if load.shared:
        command += ["--dataset-name", "shared-prefix", "--random-prefix-len", SHARED, "--random-input-len", PROMPT - SHARED]
    else:
        command += ["--random-input-len", PROMPT]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or done.stdout.strip())
    result = json.loads(done.stdout)
    expected = load.requests * ANSWER
    if result["total_output_tokens"] != expected:
        raise RuntimeError(f"{result['total_output_tokens']} tokens came, not {expected}")
    return {name: result[key] for name, (key, _) in METRICS.items()}


def bench_until_whole(args, server, load, seed):
    """Another seed's prompts if a request fails: llama-server answers some continuations of random tokens with 500."""
    for attempt in range(MOST_ATTEMPTS):
        try:
            return bench(args, server, load, seed + 10000 * attempt)
        except RuntimeError as error:
            print(f"  again: {error}", file=sys.stderr, flush=True)
            last = error
    raise last


def measure(args, all_peers, log):
    """{load: {peer: [metrics per repetition]}}, {peer: why it has no row}."""
    samples = {load.name: {peer.name: [] for peer in all_peers} for load in LOADS}
    failures = {}
    for repetition in range(args.repeat):
        for peer in all_peers if repetition % 2 == 0 else reversed(all_peers):
            if peer.name in failures:
                continue
            with Server(peer, args.threads, log) as server:
                try:
                    if server.error:
                        raise RuntimeError(server.error)
                    bench(args, server, Load(4, 4, False), 1000 + repetition)  # warm-up
                    for i, load in enumerate(LOADS):
                        metrics = bench_until_whole(args, server, load, 100 * repetition + i)
                        samples[load.name][peer.name].append(metrics)
                        print(f"  {repetition + 1}/{args.repeat} {peer.name} {load.name}: "
                              f"{metrics['output tokens/s']:.1f} tokens/s", file=sys.stderr, flush=True)
                except (RuntimeError, OSError, ValueError) as error:
                    failures[peer.name] = str(error)
    return samples, failures


def summarise(samples, failures):
    """Rows of (load, metric, {peer: median}, ratio to the best of the others)."""
    rows = []
    for load, by_peer in samples.items():
        for metric, (_, more_is_better) in METRICS.items():
            medians = {name: statistics.median(run[metric] for run in runs)
                       for name, runs in by_peer.items() if runs and name not in failures}
            others = [value for name, value in medians.items() if name != "octavo"]
            ratio = None
            if others and "octavo" in medians:
                ratio = medians["octavo"] / max(others) if more_is_better else min(others) / medians["octavo"]
            rows.append({"load": load, "metric": metric, "medians": medians, "ratio": ratio})
    return rows


def print_table(rows, all_peers):
    names = [peer.name for peer in all_peers]
    print("| load | metric | " + " | ".join(names) + " | ratio |")
    print("|---|---|" + "---|" * (len(names) + 1))
    for row in rows:
        values = [f"{row['medians'][name]:.1f}" if name in row["medians"] else "-" for name in names]
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
        print(f"| {row['load']} | {row['metric']} | " + " | ".join(values) + f" | {ratio} |")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--octavo", required=True)
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--llama-server", help="program; left out without it")
    parser.add_argument("--vllm-python", help="Python of an environment with vLLM's CPU build; left out without it")
    parser.add_argument("--vllm-model", help="folder with the same weights in Hugging Face's layout")
    parser.add_argument("--octavo-flags", default="", help="more flags for octavo serve, in one string")
    parser.add_argument("--llama-flags", default="")
    parser.add_argument("--vllm-flags", default="")
    parser.add_argument("--log", default=os.devnull, help="file for what the servers print")
    parser.add_argument("--json", help="also write everything to this file")
    args = parser.parse_args()
    if bool(args.vllm_python) != bool(args.vllm_model):
        parser.error("--vllm-python and --vllm-model belong together")
    return args


def main():
    args = parse()
    all_peers = peers(args)
    about = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "commit": commit() or "unknown",
             "command": shlex.join(sys.argv), "machine": machine(), "threads": args.threads, "repeat": args.repeat,
             "model": os.path.basename(args.model), "servers": {peer.name: shlex.join(peer.command) for peer in all_peers}}
    with open(args.log, "w", encoding="utf-8") as log:
        samples, failures = measure(args, all_peers, log)
    rows = summarise(samples, failures)
    info = about["machine"]
    print(f"{info['model']}, {info['cpus']} processors, {' '.join(info['flags'])}; load average before "
          f"{info['load_average'][0]:.2f}; {args.threads} threads; {about['model']}; octavo {about['commit']}")
    print_table(rows, all_peers)
    for name, why in failures.items():
        print(f"{name}: {why}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({**about, "rows": rows, "samples": samples, "failures": failures}, f, indent=1)
            f.write("\n")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
