#!/usr/bin/env python3
"""How near decode comes to the memory's speed: what a step must read, per second, as a share of a plain read.

  bench/compare/decode_bound.py --octavo build/release/octavo -m MODEL.gguf [-m MODEL.gguf ...] --threads 2 [--repeat 7]

A step must read the weights once (but for an embedding that the vocabulary projection does not use) and K and V of all tokens so far.
Before and after each run `octavo bench roofline` reads memory with as many threads; the share is of the mean of the two, because on
shared machines the memory's speed changes within minutes.
"""

import argparse
import json
import statistics
import subprocess
import sys

INPUT_LEN = 16


def ask(octavo, *arguments):
    done = subprocess.run([octavo, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{octavo} {' '.join(map(str, arguments))} failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def bytes_of_step(inspected, context, dtype="float16"):
    """What a decode step after `context` tokens must read."""
    sizes = {tensor["name"]: tensor["bytes"] for tensor in inspected["tensors"]}
    unused = sizes.get("token_embd.weight", 0) if "output.weight" in sizes else 0
    return sum(sizes.values()) - unused + inspected["kv_bytes_per_token"][dtype] * context


def read_speed(octavo, threads):
    reads = ask(octavo, "bench", "roofline", "--threads", threads, "--seconds", 0.05, "--json")["reads"]
    return max(reads, key=lambda read: read["bytes_per_thread"])["bytes_per_s"]


def measure(args, model):
    """(bytes/s of decode, bytes/s of reading) of each repetition."""
    per_step = bytes_of_step(ask(args.octavo, "inspect", model, "--json"), INPUT_LEN + args.output_len / 2)
    samples = []
    for _ in range(args.repeat):
        before = read_speed(args.octavo, args.threads)
        latency = ask(args.octavo, "bench", "latency", "-m", model, "--input-len", INPUT_LEN, "--output-len", args.output_len,
                      "--repeat", 1, "--threads", args.threads, "--json")
        after = read_speed(args.octavo, args.threads)
        samples.append((latency["decode_tokens_per_s"] * per_step, (before + after) / 2))
    return samples


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--octavo", metavar="PROGRAM", required=True)
    parser.add_argument("-m", "--model", action="append", required=True, help="GGUF file; repeatable")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--output-len", type=int, default=128, help="tokens that each run decodes (default 128)")
    parser.add_argument("--repeat", type=int, default=7, help="repetitions (default 7)")
    args = parser.parse_args()
    print("| model | decode, GB/s | read, GB/s | share, median (least to most) |\n|---|---|---|---|")
    for model in args.model:
        samples = measure(args, model)
        shares = sorted(decode / read for decode, read in samples)
        decode, read = (statistics.median(values) / 1e9 for values in zip(*samples))
        print(f"| {model.rsplit('/', 1)[-1]} | {decode:.1f} | {read:.1f} | "
              f"{statistics.median(shares):.2f} ({shares[0]:.2f} to {shares[-1]:.2f}) |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
