#!/usr/bin/env python3
"""Makes the tiny random-weight models of tests/golden/tiny and what they must compute.

  python tests/tools/make_tiny_models.py --output tests/golden/tiny [--only NAME]

Each NAME.gguf has one or two layers; NAME.golden holds token ids and log-probabilities by the
float64 forward pass of numpy_llama.py. Needs numpy and gguf from PyPI.
"""

import argparse
import dataclasses
import os
import zlib

import gguf
import numpy as np

import random_blocks
import tiny_golden_format
import tiny_vocabulary
from numpy_llama import Model

_TYPES = gguf.GGMLQuantizationType
POSITIONS = (0, 1, 7, 15, 16, 31, 32, 47)


@dataclasses.dataclass
class Spec:
    """One model. `format` is that of the matrices whose rows it fits, Q8_0 that of the others."""

    name: str
    architecture: str = "llama"
    num_layers: int = 2
    hidden_dim: int = 64
    ffn_dim: int = 96
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 64
    vocab_size: int = 272
    context_length: int = 512
    format: str = "Q8_0"
    tied: bool = True
    biases: tuple = ()
    rope_base: float = 10000.0
    rope: dict = dataclasses.field(default_factory=dict)
    vocabulary: str = "bpe"
    positions: tuple = POSITIONS


QKV = ("attn_q", "attn_k", "attn_v")
ALL = QKV + ("attn_output", "ffn_gate", "ffn_up", "ffn_down")
ONE = {"num_layers": 1, "num_heads": 2, "num_kv_heads": 1}
SMALL = {"num_heads": 2, "num_kv_heads": 1, "head_dim": 32}
TINY = {**SMALL, "num_layers": 1, "ffn_dim": 64}
K_QUANT = {**TINY, "hidden_dim": 256, "ffn_dim": 32, "num_heads": 8}
YARN = {"type": "yarn", "factor": 4.0, "original": 32}
LONGROPE = {"type": "longrope", "original": 32, "attn": 1.19}
LONG_POSITIONS = (0, 15, 16, 63, 64, 127, 254, 255, 256, 257, 287, 288, 299)

SPECS = [
    # Heads, head_dim and the layout of RoPE.
    Spec("llama-mha-64", num_heads=2, vocabulary="spm"),
    Spec("llama-mqa-64", num_heads=3, num_kv_heads=1, tied=False),
    Spec("llama-gqa-64", num_layers=1, num_heads=6, vocab_size=291),
    Spec("llama-mha-80", num_layers=1, num_heads=2, head_dim=80, ffn_dim=160),
    Spec("llama-gqa-80", num_layers=1, head_dim=80, tied=False),
    Spec("llama-mqa-128", **ONE, head_dim=128),
    Spec("llama-gqa-128", num_layers=1, head_dim=128, ffn_dim=32),
    Spec("qwen2-mha-64", "qwen2", num_heads=2, biases=QKV),
    Spec("qwen2-mqa-80", "qwen2", **ONE, head_dim=80, biases=QKV, tied=False),
    Spec("qwen2-gqa-128", "qwen2", num_layers=1, head_dim=128, biases=QKV, rope_base=1e6),
    Spec("llama-nine-heads", num_layers=1, num_heads=9, num_kv_heads=3, head_dim=32),
    Spec("llama-biases", **SMALL, biases=ALL),
    Spec("llama-300-tokens", **SMALL, rope_base=100000.0, positions=LONG_POSITIONS),
    # RoPE scalings.
    Spec("llama-rope-linear", **SMALL, rope={"type": "linear", "factor": 2.5}),
    Spec("llama-rope-yarn", **ONE, rope=YARN),
    Spec(
        "llama-rope-yarn-options",
        **ONE,
        rope={**YARN, "beta_fast": 8.0, "beta_slow": 2.0, "attn": 0.9},
    ),
    Spec(
        "qwen2-rope-yarn", "qwen2", **ONE, biases=QKV, rope={**YARN, "factor": 8.0}, rope_base=1e6
    ),
    Spec("llama-rope-llama3", **ONE, rope={"llama3": (8.0, 1.0, 4.0, 64)}, rope_base=500000.0),
    Spec("llama-rope-longrope-long", **SMALL, rope=LONGROPE),
    Spec("llama-rope-longrope-short", **SMALL, rope={"type": "longrope", "original": 512}),
    # Weight formats.
    Spec("format-f32", format="F32", **TINY),
    Spec("format-f16", format="F16", **TINY),
    Spec("format-bf16", format="BF16", **TINY),
    Spec("format-q4_0", format="Q4_0", **SMALL),
    Spec("format-q4_1", format="Q4_1", **SMALL),
    Spec("format-q5_0", format="Q5_0", **SMALL),
    Spec("format-q5_1", format="Q5_1", **SMALL),
    Spec("format-q8_0", format="Q8_0", **SMALL, tied=False),
    Spec("format-iq4_nl", format="IQ4_NL", **SMALL),
    Spec("format-q2_k", format="Q2_K", **K_QUANT),
    Spec("format-q3_k", format="Q3_K", **K_QUANT),
    Spec("format-q4_k", format="Q4_K", **K_QUANT),
    Spec("format-q5_k", format="Q5_K", **K_QUANT),
    Spec("format-q6_k", format="Q6_K", **K_QUANT),
]


def llama3_divisors(spec):
    """Llama 3.1's rope_freqs.weight: 1 for fast pairs, the factor for slow ones, or a blend."""
    factor, low, high, original = spec.rope["llama3"]
    pairs = np.arange(spec.head_dim // 2)
    wavelengths = 2 * np.pi * spec.rope_base ** (2.0 * pairs / spec.head_dim)
    smooth = np.clip((original / wavelengths - low) / (high - low), 0.0, 1.0)
    return (1.0 / ((1.0 - smooth) / factor + smooth)).astype(np.float32)


class Builder:
    def __init__(self, spec, path):
        self.spec = spec
        self.rng = np.random.default_rng(zlib.crc32(spec.name.encode()))
        self.writer = gguf.GGUFWriter(path, spec.architecture)

    def metadata(self):
        spec, w = self.spec, self.writer
        w.add_name(spec.name)
        w.add_context_length(spec.context_length)
        w.add_embedding_length(spec.hidden_dim)
        w.add_block_count(spec.num_layers)
        w.add_feed_forward_length(spec.ffn_dim)
        w.add_head_count(spec.num_heads)
        w.add_head_count_kv(spec.num_kv_heads)
        w.add_key_length(spec.head_dim)
        w.add_value_length(spec.head_dim)
        w.add_layer_norm_rms_eps(1e-5)
        w.add_vocab_size(spec.vocab_size)
        w.add_rope_dimension_count(spec.head_dim)
        w.add_rope_freq_base(spec.rope_base)
        rope = spec.rope
        if "type" in rope:
            w.add_rope_scaling_type(gguf.RopeScalingType(rope["type"]))
        for key, add in (
            ("factor", w.add_rope_scaling_factor),
            ("original", w.add_rope_scaling_orig_ctx_len),
            ("attn", w.add_rope_scaling_attn_factors),
            ("beta_fast", w.add_rope_scaling_yarn_beta_fast),
            ("beta_slow", w.add_rope_scaling_yarn_beta_slow),
        ):
            if key in rope:
                add(rope[key])
        add_vocabulary = {"bpe": tiny_vocabulary.add_bpe, "spm": tiny_vocabulary.add_spm}
        add_vocabulary[spec.vocabulary](w, spec.vocab_size)

    def matrix(self, name, rows, columns, deviation):
        quant_type = _TYPES[self.spec.format]
        if columns % gguf.GGML_QUANT_SIZES[quant_type][0] != 0:
            quant_type = _TYPES.Q8_0
        if random_blocks.has(quant_type):
            data = random_blocks.make(self.rng, quant_type, rows, columns, deviation)
        else:
            values = self.rng.normal(0.0, deviation, (rows, columns)).astype(np.float32)
            data = gguf.quants.quantize(values, quant_type)
        raw_dtype = None if quant_type in (_TYPES.F32, _TYPES.F16) else quant_type
        self.writer.add_tensor(f"{name}.weight", data, raw_dtype=raw_dtype)

    def vector(self, name, low, high, n):
        self.writer.add_tensor(name, self.rng.uniform(low, high, n).astype(np.float32))

    def linear(self, layer, name, rows, columns, gain):
        """Weights that keep a unit variance but for `gain`; the bias where there is one."""
        self.matrix(f"{layer}.{name}", rows, columns, gain / np.sqrt(columns))
        if name in self.spec.biases:
            self.vector(f"{layer}.{name}.bias", -0.5, 0.5, rows)

    def tensors(self):
        spec = self.spec
        hidden, query_dim = spec.hidden_dim, spec.num_heads * spec.head_dim
        kv_dim = spec.num_kv_heads * spec.head_dim
        self.matrix("token_embd", spec.vocab_size, hidden, 2.5 / np.sqrt(hidden))
        self.vector("output_norm.weight", 0.5, 1.5, hidden)
        if not spec.tied:
            self.matrix("output", spec.vocab_size, hidden, 2.5 / np.sqrt(hidden))
        if "llama3" in spec.rope:
            self.writer.add_tensor("rope_freqs.weight", llama3_divisors(spec))
        if spec.rope.get("type") == "longrope":
            self.vector("rope_factors_long.weight", 1.0, 8.0, spec.head_dim // 2)
            self.vector("rope_factors_short.weight", 1.0, 2.0, spec.head_dim // 2)
        for index in range(spec.num_layers):
            layer = f"blk.{index}"
            self.vector(f"{layer}.attn_norm.weight", 0.5, 1.5, hidden)
            self.linear(layer, "attn_q", query_dim, hidden, 1.3)
            self.linear(layer, "attn_k", kv_dim, hidden, 1.3)
            self.linear(layer, "attn_v", kv_dim, hidden, 1.0)
            self.linear(layer, "attn_output", hidden, query_dim, 1.0)
            self.vector(f"{layer}.ffn_norm.weight", 0.5, 1.5, hidden)
            self.linear(layer, "ffn_gate", spec.ffn_dim, hidden, 1.0)
            self.linear(layer, "ffn_up", spec.ffn_dim, hidden, 1.0)
            self.linear(layer, "ffn_down", hidden, spec.ffn_dim, 1.0)

    def write(self):
        self.metadata()
        self.tensors()
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()
        return self.rng


def make(spec, folder):
    model_path = os.path.join(folder, spec.name + ".gguf")
    rng = Builder(spec, model_path).write()
    num_tokens = spec.positions[-1] + 1
    token_ids = rng.integers(0, spec.vocab_size, num_tokens)
    logprobs = Model(model_path).logprobs(token_ids)
    golden = tiny_golden_format.TinyGolden(
        spec.vocab_size,
        spec.context_length,
        token_ids,
        np.array(spec.positions),
        logprobs[list(spec.positions)],
    )
    golden_path = os.path.join(folder, spec.name + ".golden")
    tiny_golden_format.write(golden_path, golden)
    entropy = -(np.exp(logprobs) * logprobs).sum(axis=-1).mean()
    sizes = os.path.getsize(model_path), os.path.getsize(golden_path)
    print(f"{spec.name:28s} {sizes[0]:8d} {sizes[1]:8d} bytes, mean entropy {entropy:.2f} nats")
    return sum(sizes)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", required=True)
    parser.add_argument("--only")
    args = parser.parse_args()
    chosen = [spec for spec in SPECS if args.only in (None, spec.name)]
    print(f"{len(chosen)} models, {sum(make(spec, args.output) for spec in chosen)} bytes")


if __name__ == "__main__":
    main()
