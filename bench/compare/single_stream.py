#!/usr/bin/env python3
"""One stream beside llama.cpp alone, with a llama-bench that is built already: three metrics of bench/compare/run.

  bench/compare/single_stream.py --octavo build/release/octavo --llama-bench PATH/llama-bench \\
      -m MODEL.gguf --threads 2 --repeat 5 [--json FILE]

Only the ratios may be quoted. docs/guides/measuring.md says what is measured, and how llama-bench is built.
"""

import argparse
import os
import sys

import compare

METRICS = ("decode", "decode-4k", "prefill-512")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="further options are those of bench/compare/run")
    parser.add_argument("--llama-bench", metavar="PROGRAM", required=True)
    parser.add_argument("--only", choices=METRICS, action="append", help="only this metric; repeatable")
    args, others = parser.parse_known_args()
    return compare.main(["--llama-cpp", os.path.dirname(os.path.abspath(args.llama_bench)), "--peers", "llama.cpp",
                         "--metrics", ",".join(args.only or METRICS), *others])


if __name__ == "__main__":
    sys.exit(main())
