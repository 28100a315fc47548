#!/usr/bin/env python3
"""Compares distributions with a parity golden, sequence by sequence.

  python tests/tools/compare_parity.py --golden FILE --model MODEL.gguf --numpy [--max-tokens 150]
  python tests/tools/compare_parity.py --golden FILE --model MODEL.gguf \\
      --octavo build/release/octavo [--top 1024] [-- --compute float32 --kv-cache-dtype float32]

--numpy runs the float64 forward pass of numpy_llama.py. --octavo asks the program for the `--top`
most likely tokens at each position; a golden's id that it does not report joins the rest bucket on
both sides, which makes the distance slightly smaller, never larger. What follows `--` goes to the
program.
"""

import argparse
import json
import subprocess
import sys

import numpy as np

import parity_format
from parity_distance import kl, rest_of

MARGIN = 0.1  # positions where the reference's first two tokens are further apart must agree


def numpy_rows(model_path):
    """A function from token ids to, per position, {id: log-probability} of the whole vocabulary."""
    from numpy_llama import Model

    model = Model(model_path)
    return lambda token_ids: model.logprobs(token_ids)


def rows_of_logprobs(logprobs, first):
    """[{id: log-probability}] from the completions API's object of lists, from entry `first` on."""
    rows = []
    for ids, top in zip(logprobs["top_token_ids"][first:], logprobs["top_logprobs"][first:]):
        values = list(
            top.values()
        )  # in the order of `ids`; the chosen token follows if it is not among them
        if len(values) < len(ids):
            raise ValueError("two tokens of one position are spelled alike")
        rows.append(dict(zip(ids, values)))
    return rows


def positions_of(output):
    """The reported tokens after tokens 0..i, for each i: the prompt's, then the first answer's."""
    rows = []
    if "prompt_logprobs" in output:  # a prompt of one token has none
        rows = rows_of_logprobs(output["prompt_logprobs"], first=1)
    return rows + rows_of_logprobs(output["outputs"][0]["logprobs"], first=0)[:1]


def octavo_rows(binary, model_path, top, extra):
    def run(token_ids):
        ids = ",".join(str(i) for i in token_ids)
        command = [binary, "run", "-m", model_path, "--prompt-token-ids", ids, "--max-tokens", "1"]
        command += ["--logprobs", str(top), "--prompt-logprobs", str(top), "--json", *extra]
        return positions_of(
            json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        )

    return run


def distance(sequence, position, row):
    """KL of one position; `row` is a full array or {id: log-probability}."""
    ids, logprobs = sequence.top_ids[position], sequence.top_logprobs[position].astype(np.float64)
    rest = float(sequence.rest_logprobs[position])
    if not isinstance(row, dict):
        return kl(logprobs, rest, row[ids], rest_of(row, ids))
    known = np.array([int(i) in row for i in ids])
    used = {int(i) for i in ids[known]}
    test = np.array([row[int(i)] for i in ids[known]])
    rest_mass = np.exp(rest) + np.exp(logprobs[~known]).sum()
    # The other reported tokens, and whatever is left of 1: the difference alone would cancel.
    reported = np.exp(np.array(list(row.values()))).sum()
    test_rest_mass = sum(np.exp(v) for i, v in row.items() if i not in used)
    test_rest_mass = max(test_rest_mass + max(1.0 - reported, 0.0), 1e-12)
    return kl(logprobs[known], np.log(rest_mass), test, np.log(test_rest_mass))


def compare(sequence, rows):
    """Mean and largest KL, and how often the top token agrees: ever, and where sure."""
    distances, same, sure, sure_same = [], 0, 0, 0
    for position, row in enumerate(rows):
        distances.append(distance(sequence, position, row))
        best = max(row, key=row.get) if isinstance(row, dict) else int(np.argmax(row))
        agrees = best == sequence.top_ids[position][0]
        first, second = np.exp(sequence.top_logprobs[position][:2].astype(np.float64))
        same += agrees
        sure += first - second > MARGIN
        sure_same += agrees and first - second > MARGIN
    return np.array(distances), same, sure, sure_same


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--golden", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--numpy", action="store_true")
    parser.add_argument("--octavo")
    parser.add_argument("--top", type=int, default=1024)
    parser.add_argument("--only", help="names that start so")
    parser.add_argument("--max-tokens", type=int, help="skip longer sequences")
    parser.add_argument("extra", nargs="*")
    args = parser.parse_args()
    if args.numpy == bool(args.octavo):
        parser.error("give either --numpy or --octavo")

    golden = parity_format.read(args.golden)
    if args.numpy:
        rows_of = numpy_rows(args.model)
    else:
        rows_of = octavo_rows(args.octavo, args.model, args.top, args.extra)
    print(
        f"{'sequence':24s} {'tokens':>6s} {'mean KL':>10s} {'max KL':>10s}"
        f" {'same top':>9s} {'where sure':>11s}"
    )
    totals = {}
    for sequence in golden.sequences:
        if args.only and not sequence.name.startswith(args.only):
            continue
        if args.max_tokens and len(sequence.token_ids) > args.max_tokens:
            continue
        distances, same, sure, sure_same = compare(sequence, rows_of(sequence.token_ids))
        n = len(distances)
        print(
            f"{sequence.name:24s} {n:6d} {distances.mean():10.2e} {distances.max():10.2e}"
            f" {same / n:9.4f} {sure_same:5d}/{sure:5d}",
            flush=True,
        )
        total = totals.setdefault(sequence.kind, [0.0, 0, 0, 0, 0])
        for i, value in enumerate((distances.sum(), n, same, sure, sure_same)):
            total[i] += value
    for kind, (kl_sum, n, same, sure, sure_same) in sorted(totals.items()):
        label = "all windows" if kind == parity_format.KIND_WIKITEXT else "all prompts"
        print(
            f"{label:24s} {n:6d} {kl_sum / n:10.2e} {'':10s}"
            f" {same / n:9.4f} {sure_same:5d}/{sure:5d}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
