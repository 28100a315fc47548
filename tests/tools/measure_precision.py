#!/usr/bin/env python3
"""What quantised activations cost, before any kernel is written: the distance between a model with
float32 products and the same model whose inputs of every matrix are rounded to so many bits, with
one scale for each group of so many elements.

Needs torch, transformers, accelerate, gguf, numpy and sentencepiece from PyPI.

  python tests/tools/measure_precision.py --golden tests/golden/parity/smollm2-135m-q4_1.parity \\
      --model ~/.cache/octavo/SmolLM2-135M-Instruct.Q4_1.gguf [--windows 8]

Prints one line for each precision: mean KL(float32 || quantised) in nats over all positions of the
golden's WikiText windows, and how often the most likely token is the same. Codes are symmetric and
rounded to nearest even, as docs/contracts/arithmetic.md has them; sums are torch's own.
"""

import argparse
import os

import torch
import transformers

import parity_format

# Bits, and elements per scale; 0: one scale for the row.
PRECISIONS = [(8, 16), (8, 32), (8, 64), (8, 0), (10, 32), (12, 32), (16, 0)]


class RoundedInputs:
    """Rounds what every linear layer reads, while `precision` is set."""

    def __init__(self, model):
        self.precision = None
        for module in model.modules():
            if isinstance(module, torch.nn.Linear):
                module.register_forward_pre_hook(self._round)

    def _round(self, _module, inputs):
        if self.precision is None:
            return None
        bits, group = self.precision
        x = inputs[0]
        grouped = x.reshape(*x.shape[:-1], -1, group or x.shape[-1])
        largest = 2 ** (bits - 1) - 1
        scale = grouped.abs().amax(dim=-1, keepdim=True) / largest
        codes = torch.round(grouped / scale.clamp(min=2.0**-100))
        return ((codes * scale).reshape(x.shape), *inputs[1:])


@torch.no_grad()
def distances(model, rounded, windows):
    """Of each precision: mean KL in nats, and the share of positions with the same top token."""
    kl = dict.fromkeys(PRECISIONS, 0.0)
    same = dict.fromkeys(PRECISIONS, 0.0)
    num_positions = sum(map(len, windows))

    def logprobs(ids, precision):
        rounded.precision = precision
        return torch.log_softmax(model(torch.tensor([ids])).logits[0], dim=-1)

    for ids in windows:
        exact = logprobs(ids, None)
        for precision in PRECISIONS:
            quantised = logprobs(ids, precision)
            terms = exact.exp() * (exact - quantised)
            kl[precision] += terms.sum(dtype=torch.float64).item() / num_positions
            hits = (exact.argmax(dim=-1) == quantised.argmax(dim=-1)).sum().item()
            same[precision] += hits / num_positions
    return {precision: (kl[precision], same[precision]) for precision in PRECISIONS}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="the default model's GGUF file")
    parser.add_argument("--golden", required=True, help="the parity golden: its windows are used")
    parser.add_argument("--windows", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    folder, file_name = os.path.split(os.path.abspath(os.path.expanduser(args.model)))
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=file_name, dtype=torch.float32, attn_implementation="eager"
    )
    model.eval()
    rounded = RoundedInputs(model)
    windows = [
        sequence.token_ids.tolist()
        for sequence in parity_format.read(args.golden).sequences
        if sequence.kind == parity_format.KIND_WIKITEXT
    ][: args.windows]
    print(f"{sum(map(len, windows))} positions\nbits  group      mean KL  same top")
    for (bits, group), (kl, same) in distances(model, rounded, windows).items():
        print(f"{bits:4}  {group or 'row':>5}  {kl:11.3g}  {100 * same:6.2f} %")


if __name__ == "__main__":
    main()
