#!/usr/bin/env python3
"""Makes tests/golden/sampling/cases.txt: an independent reference of the sampler (docs/contracts/sampling.md).

Written from the contract with the standard library only. Penalties, bias and masks are formed in float32 (each operation in
binary64 and rounded once more, which is exact for + - * /) and compared bit for bit. Weights are formed in binary64 with
Python's math.exp; a draw whose target lies within MARGIN of a border between two tokens, or a filter whose border is that
close, is refused here, so that the expected token does not hang on the last bits.

Usage: make_sampling_golden.py [--check] [FILE]
"""

import argparse
import math
import pathlib
import random
import struct
import sys

MARGIN = 1e-5
NUM_DRAWS = 48
NEGATIVE_INFINITY = float("-inf")


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def bits(value):
    return f"{struct.unpack('<I', struct.pack('<f', value))[0]:08x}"


def philox4x32(counter, key):
    mask = 0xFFFFFFFF
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & mask, (p0 >> 32) ^ c3 ^ k1, p0 & mask
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return c0, c1, c2, c3


def uniform(seed, position, stream):
    mask = 0xFFFFFFFF
    words = philox4x32((position & mask, position >> 32, stream, 0), (seed & mask, seed >> 32))
    return (((words[1] << 32 | words[0]) >> 12) + 0.5) / 2**52


def process(case):
    """Masks, bias and penalties, in that order."""
    logits = list(case["logits"])
    allowed = set(case["allowed_token_ids"])
    if allowed:
        logits = [x if i in allowed else NEGATIVE_INFINITY for i, x in enumerate(logits)]
    if len(case["output"]) < case["min_tokens"]:
        for token in case["eos"] + case["stop_token_ids"]:
            logits[token] = NEGATIVE_INFINITY
    for token, bias in case["logit_bias"]:
        logits[token] = f32(logits[token] + bias)
    repetition = case["repetition_penalty"]
    frequency, presence = case["frequency_penalty"], case["presence_penalty"]
    for token in sorted(set(case["prompt"] + case["output"])):
        x = logits[token]
        if repetition != 1.0:
            x = f32(x / repetition) if x > 0 else f32(x * repetition)
        count = case["output"].count(token)
        if count:
            x = f32(x - f32(frequency * count))
            x = f32(x - presence)
        logits[token] = x
    return logits


def far_apart(a, b):
    assert abs(a - b) > MARGIN * max(abs(a), abs(b)), (a, b)


def keep(case, logits):
    """[(token, weight)] in the order in which the cumulative weights run."""
    highest = max(logits)
    inverse = f32(1.0 / case["temperature"])
    scaled = [f32(f32(x - highest) * inverse) for x in logits]
    weights = [math.exp(x) for x in scaled]
    min_p, top_k, top_p = case["min_p"], case["top_k"], case["top_p"]
    for i, weight in enumerate(weights):
        if min_p > 0:
            far_apart(weight, min_p)
            if weight < min_p:
                weights[i] = 0.0
                scaled[i] = NEGATIVE_INFINITY
    if not 0 < top_k < len(logits) and top_p == 1.0:
        return list(enumerate(weights))
    order = sorted(range(len(logits)), key=lambda i: (-scaled[i], i))
    if 0 < top_k < len(logits):
        order = order[:top_k]
    total = math.fsum(weights[i] for i in order)
    kept, mass = [], 0.0
    for i in order:
        kept.append((i, weights[i]))
        mass += weights[i]
        if top_p < 1.0:
            far_apart(mass, top_p * total)
            if mass >= top_p * total:
                break
    return kept


def draw(kept, value):
    """The token at `value` of the cumulative weights; None if that is too close to a border."""
    total = math.fsum(weight for _, weight in kept)
    target, mass, chosen = value * total, 0.0, None
    for token, weight in kept:
        mass += weight
        if weight > 0.0 and abs(mass - target) <= MARGIN * total:
            return None
        if chosen is None and mass > target:
            chosen = token
    return chosen


DEFAULTS = {
    "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0,
    "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
    "min_tokens": 0, "seed": 0, "stream": 0,
    "logit_bias": [], "allowed_token_ids": [], "stop_token_ids": [], "eos": [],
    "prompt": [], "output": [],
}  # fmt: skip


def make_cases():
    rng = random.Random(20240229)

    def row(n, spread=2.0, ties=False):
        values = [f32(rng.gauss(0.0, spread)) for _ in range(n)]
        if ties:
            values = [f32(round(x * 2) / 2) for x in values]
        return values

    def history(vocab, n):
        return [rng.randrange(vocab) for _ in range(n)]

    cases = [
        dict(name="no_filter_one_block", logits=row(40), seed=1),
        dict(name="no_filter_three_blocks", logits=row(600, 1.0), seed=0xDEADBEEFCAFEF00D),
        dict(name="hot", logits=row(300), temperature=2.5, seed=3),
        dict(name="cold", logits=row(300), temperature=0.3, seed=4, stream=7),
        dict(name="top_k_with_ties", logits=row(300, 1.0, ties=True), top_k=11, seed=5),
        dict(name="top_k_1", logits=row(64, ties=True), top_k=1, seed=6),
        dict(name="top_k_above_blocks", logits=row(600), top_k=50, temperature=1.5, seed=7),
        dict(name="top_k_above_vocabulary", logits=row(30), top_k=31, seed=8),
        dict(name="top_p", logits=row(300), top_p=0.82, seed=9),
        dict(name="top_p_flat_grows_past_the_first_tokens", logits=row(700, 0.2), top_p=0.9, seed=10),
        dict(name="top_p_tiny_keeps_one", logits=row(50), top_p=0.001, seed=11),
        dict(name="min_p", logits=row(300), min_p=0.1, seed=12),
        dict(name="min_p_top_k_top_p", logits=row(500), min_p=0.02, top_k=30, top_p=0.7,
             temperature=1.3, seed=13),
        dict(name="repetition", logits=row(64), repetition_penalty=1.3, prompt=history(64, 20),
             output=history(64, 12), seed=14),
        dict(name="repetition_below_one", logits=row(64), repetition_penalty=0.7,
             prompt=history(64, 20), seed=15),
        dict(name="presence_and_frequency", logits=row(64), presence_penalty=0.6,
             frequency_penalty=-0.35, prompt=history(64, 9), output=history(16, 40), seed=16),
        dict(name="bias", logits=row(32), logit_bias=[(3, 4.5), (31, -100.0), (0, 0.1)], seed=17),
        dict(name="allowed", logits=row(300), allowed_token_ids=[299, 7, 255, 256, 7, 0], seed=18),
        dict(name="before_min_tokens", logits=row(24), min_tokens=3, eos=[2], stop_token_ids=[5, 9],
             output=[1, 4], seed=19),
        dict(name="at_min_tokens", logits=row(24), min_tokens=3, eos=[2], stop_token_ids=[5, 9],
             output=[1, 4, 4], seed=20),
        dict(name="everything", logits=row(400), temperature=0.8, top_p=0.95, top_k=60, min_p=0.005,
             repetition_penalty=1.1, presence_penalty=0.3, frequency_penalty=0.2, min_tokens=100,
             eos=[0, 1], stop_token_ids=[390], logit_bias=[(12, 2.0), (44, -3.25)],
             allowed_token_ids=list(range(0, 400, 2)), prompt=history(400, 100),
             output=history(400, 60), seed=21),
    ]  # fmt: skip
    for case in cases:
        for name, value in DEFAULTS.items():
            case.setdefault(name, value)
        for name, value in case.items():
            if isinstance(value, float):
                case[name] = f32(value)
        case["logit_bias"] = [(token, f32(bias)) for token, bias in case["logit_bias"]]
        yield case


def write_case(case, out):
    processed = process(case)
    kept = keep(case, processed)
    out.append(f"case {case['name']}")
    out.append(f"vocab {len(case['logits'])}")
    for name, default in DEFAULTS.items():
        value = case[name]
        if value == default:
            continue
        if isinstance(value, float):
            out.append(f"{name} {bits(value)}")
        elif name == "logit_bias":
            pairs = " ".join(f"{token}:{bits(bias)}" for token, bias in value)
            out.append(f"{name} {pairs}")
        elif isinstance(value, list):
            out.append(f"{name} {' '.join(map(str, value))}")
        else:
            out.append(f"{name} {value}")
    out.append("logits " + " ".join(map(bits, case["logits"])))
    changed = [i for i, x in enumerate(processed) if bits(x) != bits(case["logits"][i])]
    out.append(" ".join(["changed"] + [f"{i}:{bits(processed[i])}" for i in changed]))
    draws = []
    position = 0
    while len(draws) < NUM_DRAWS:
        token = draw(kept, uniform(case["seed"], position, case["stream"]))
        if token is not None:
            draws.append(f"{position}:{token}")
        # Positions of both halves of the counter.
        position += 1 if len(draws) != NUM_DRAWS // 2 else 2**33
    out.append("draws " + " ".join(draws))
    out.append("end")


def main():
    default = pathlib.Path(__file__).resolve().parents[1] / "golden" / "sampling" / "cases.txt"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with FILE instead of writing")
    parser.add_argument("file", nargs="?", type=pathlib.Path, default=default)
    args = parser.parse_args()

    out = []
    for case in make_cases():
        write_case(case, out)
    text = "\n".join(out) + "\n"
    if args.check:
        if args.file.read_text() != text:
            sys.exit(f"{args.file}: differs from what this script makes")
    else:
        args.file.write_text(text)


if __name__ == "__main__":
    main()
