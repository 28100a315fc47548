#!/usr/bin/env python3
"""Makes tests/golden/parity/smollm2-135m-q4_1.parity: what HF Transformers computes in float32
from the default model file.

Needs torch, transformers, accelerate, gguf, numpy and sentencepiece from PyPI; the tests need
only the file that this writes.

  python tests/tools/make_parity_golden.py --wikitext wikitext-2-test.txt \\
      --model ~/.cache/octavo/SmolLM2-135M-Instruct.Q4_1.gguf \\
      --output tests/golden/parity/smollm2-135m-q4_1.parity

Transformers dequantises the file's matrices to float32, undoes the pair order of Wq and Wk, and
runs eager attention. Log-softmax is taken in float64 from its float32 logits.
"""

import argparse
import hashlib
import os

import numpy as np
import torch
import transformers

import parity_format
from parity_prompts import PROMPTS

TOP_K = 64
NUM_WINDOWS = 8
WINDOW_TOKENS = 512


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        for chunk in iter(lambda: f.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()


def wikitext_windows(tokenizer, path):
    """Evenly spaced windows of the tokenised test text."""
    with open(path, encoding="utf-8") as f:
        ids = tokenizer(f.read())["input_ids"]
    stride = (len(ids) - WINDOW_TOKENS) // (NUM_WINDOWS - 1)
    return [
        (f"wikitext-{i}", ids[i * stride : i * stride + WINDOW_TOKENS]) for i in range(NUM_WINDOWS)
    ]


@torch.no_grad()
def distributions(model, ids):
    """Per position: top ids, their log-probabilities, the rest's, and the next token's."""
    logits = model(torch.tensor([ids])).logits[0]
    top_ids, top_logprobs, rest, following = [], [], [], []
    for position, row in enumerate(logits):
        logprobs = torch.log_softmax(row.double(), dim=-1)
        values, indices = torch.topk(logprobs, TOP_K)
        others = logprobs.clone()
        others[indices] = -torch.inf
        top_ids.append(indices.numpy())
        top_logprobs.append(values.numpy())
        rest.append(torch.logsumexp(others, dim=-1).item())
        following.append(logprobs[ids[position + 1]].item() if position + 1 < len(ids) else 0.0)
    return np.array(top_ids), np.array(top_logprobs), np.array(rest), np.array(following)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="the default model's GGUF file")
    parser.add_argument(
        "--wikitext", required=True, help="wikitext-2-test.txt (word-tokenised variant)"
    )
    parser.add_argument("--output", required=True)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    folder, file_name = os.path.split(os.path.abspath(os.path.expanduser(args.model)))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=file_name)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=file_name, dtype=torch.float32, attn_implementation="eager"
    )
    model.eval()
    vocab_size = model.config.vocab_size

    cases = [
        (name, parity_format.KIND_PROMPT, tokenizer(text)["input_ids"]) for name, text in PROMPTS
    ]
    cases += [
        (name, parity_format.KIND_WIKITEXT, ids)
        for name, ids in wikitext_windows(tokenizer, args.wikitext)
    ]
    sequences = []
    for name, kind, ids in cases:
        top_ids, top_logprobs, rest, following = distributions(model, ids)
        sequences.append(
            parity_format.Sequence(
                name, kind, np.array(ids), following, rest, top_ids, top_logprobs
            )
        )
        print(f"{name}: {len(ids)} tokens, log-probability of the next one {following.mean():.4f}")
    parity_format.write(
        args.output,
        parity_format.Golden(sha256(os.path.join(folder, file_name)), vocab_size, TOP_K, sequences),
    )
    print(
        f"{args.output}: {sum(len(ids) for _, _, ids in cases)} positions,"
        f" {os.path.getsize(args.output)} bytes"
    )


if __name__ == "__main__":
    main()
