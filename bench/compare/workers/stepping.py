"""The loop that the workers of Python engines share, and the wire to bench/compare/run.

A worker reads pieces of work, one JSON object a line, from standard input, and answers each with one on the descriptor that
was standard output; what its engine prints goes to standard error instead. It runs in the engine's own environment and needs
nothing of it here.
"""

import json
import os
import random
import sys
import time
import traceback


def prompts(work, vocab_size, seed):
    """Token ids of every sequence, different with each seed: some engines remember prompts."""
    source = random.Random(seed)
    first, last = vocab_size // 4, vocab_size // 4 * 3  # special tokens usually lie at the ends

    def draw(count):
        return [source.randrange(first, last) for _ in range(count)]

    shared = draw(work["shared_tokens"])
    return [shared + draw(work["prompt_tokens"]) for _ in range(work["sequences"])]


def watch(engine, all_prompts, output_tokens):
    """Runs the prompts together: ([moments of its tokens] for each, in seconds from the submission), and the whole time."""
    moments = [[] for _ in all_prompts]
    start = time.perf_counter()
    engine.submit(all_prompts, output_tokens)
    while engine.is_running():
        new = engine.step()
        now = time.perf_counter() - start
        for index, count in new:
            moments[index] += [now] * count
    whole = time.perf_counter() - start
    for index, times in enumerate(moments):
        if len(times) != output_tokens:
            raise RuntimeError(f"sequence {index} has {len(times)} tokens, not {output_tokens}")
    return moments, whole


def decode_rate(moments):
    """Tokens per second of all together, from the moment when the last has its first to the end of the first one."""
    begin = max(times[0] for times in moments)
    end = min(times[-1] for times in moments)
    if begin >= end:
        raise RuntimeError("the sequences were never all decoding")
    return sum(begin < moment <= end for times in moments for moment in times) / (end - begin)


def measure(engine, work, seed):
    """Tokens per second of a piece of work; metrics.py says what is counted."""
    output_tokens = work["output_tokens"] + (work["kind"] in ("decode", "prefill"))  # the first one ends the prefill
    moments, whole = watch(engine, prompts(work, engine.vocab_size, seed), max(output_tokens, 2))
    if work["kind"] == "prefill":
        return work["prompt_tokens"] / moments[0][0]
    if work["kind"] == "requests":
        return work["sequences"] * work["output_tokens"] / whole
    return decode_rate(moments)


def warm_up(engine):
    work = {"kind": "requests", "prompt_tokens": 32, "shared_tokens": 0, "output_tokens": 4, "sequences": 2}
    measure(engine, work, seed=0)


def serve(make_engine):
    """Answers until standard input ends. `make_engine` is called with the options of the command line."""
    wire = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(message):
        wire.write(json.dumps(message) + "\n")
        wire.flush()

    try:
        engine = make_engine(json.loads(sys.argv[1]))
        warm_up(engine)
        answer({"ready": engine.about()})
    except Exception as error:  # whatever it is, it is this engine's row
        traceback.print_exc()
        answer({"error": f"{type(error).__name__}: {error}"})
        return
    seen = set()
    for line in sys.stdin:
        work = json.loads(line)
        try:
            if work["key"] not in seen:  # engines compile for shapes, and grow their memory
                measure(engine, work, seed=work["seed"] + 1_000_000)
                seen.add(work["key"])
            answer({"tokens_per_s": measure(engine, work, work["seed"])})
        except Exception as error:
            traceback.print_exc()
            answer({"error": f"{type(error).__name__}: {error}"})
