#!/usr/bin/env python3
"""A float64 forward pass of the Llama family in NumPy, read from a GGUF file: the independent
reference of the model tests.

  python tests/tools/numpy_llama.py MODEL.gguf 1,2,3     prints the likeliest tokens at each position

Architectures: "llama" (RoPE turns the pairs 2i, 2i+1 of a head) and "qwen2" (the pairs i, i +
head_dim/2). Biases where the file has them. RoPE scalings: linear, yarn, longrope, and the
divisors of rope_freqs.weight. Needs numpy and gguf from PyPI.

The sources of the formulas: RMSNorm, attention and SwiGLU as in the LLaMA paper (arXiv
2302.13971); YaRN as in arXiv 2309.00071, with the rounding of the ramp's ends and the attention
factor 0.1 ln(s) + 1 as Transformers computes them (modeling_rope_utils.py);
check_against_transformers.py compares every tiny model with Transformers.
"""

import argparse
import math
import sys

import gguf
import numpy as np

NEOX_ARCHITECTURES = {"qwen2"}


class Metadata:
    """The file's key-value pairs; `arch(key)` puts the architecture's name in front."""

    def __init__(self, reader):
        self._fields = reader.fields
        self.architecture = self.get("general.architecture")

    def get(self, key, default=None):
        field = self._fields.get(key)
        return default if field is None else field.contents()

    def arch(self, key, default=None):
        return self.get(f"{self.architecture}.{key}", default)


class Model:
    def __init__(self, path, max_model_len=None):
        reader = gguf.GGUFReader(path)
        meta = Metadata(reader)
        self.architecture = meta.architecture
        self.num_layers = meta.arch("block_count")
        self.hidden_dim = meta.arch("embedding_length")
        self.num_heads = meta.arch("attention.head_count")
        self.num_kv_heads = meta.arch("attention.head_count_kv", self.num_heads)
        self.head_dim = meta.arch("attention.key_length", self.hidden_dim // self.num_heads)
        self.rot_dim = meta.arch("rope.dimension_count", self.head_dim)
        self.eps = float(meta.arch("attention.layer_norm_rms_epsilon"))
        self.context_length = meta.arch("context_length")
        self.tensors = {t.name: self._dequantise(t) for t in reader.tensors}
        self.vocab_size = self.tensors["token_embd.weight"].shape[0]
        self.frequencies, self.magnitude = self._rope(meta, max_model_len or self.context_length)

    @staticmethod
    def _dequantise(tensor):
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        return values.reshape(tuple(int(n) for n in reversed(tensor.shape))).astype(np.float64)

    def _rope(self, meta, max_model_len):
        """Radians per position of each pair, and the factor of cos and sin."""
        base = float(meta.arch("rope.freq_base", 10000.0))
        pairs = np.arange(self.rot_dim // 2)
        frequencies = base ** (-2.0 * pairs / self.rot_dim)
        magnitude = float(meta.arch("rope.scaling.attn_factor", 1.0))
        scaling = meta.arch("rope.scaling.type", "none")
        factor = float(meta.arch("rope.scaling.factor", 1.0))
        original = meta.arch("rope.scaling.original_context_length", self.context_length)
        if scaling == "linear":
            frequencies = frequencies / factor
        elif scaling == "yarn":

            def pair_of(
                rotations,
            ):  # whose wavelength makes that many turns in the original context
                return (
                    self.rot_dim
                    * math.log(original / (rotations * 2 * math.pi))
                    / (2 * math.log(base))
                )

            low = max(math.floor(pair_of(float(meta.arch("rope.scaling.yarn_beta_fast", 32.0)))), 0)
            high = min(
                math.ceil(pair_of(float(meta.arch("rope.scaling.yarn_beta_slow", 1.0)))),
                self.rot_dim - 1,
            )
            slow = np.clip((pairs - low) / max(high - low, 0.001), 0.0, 1.0)
            frequencies = slow * frequencies / factor + (1.0 - slow) * frequencies
            magnitude *= 0.1 * math.log(factor) + 1.0
        elif scaling == "longrope":
            which = "long" if max_model_len > original else "short"
            frequencies = frequencies / self.tensors[f"rope_factors_{which}.weight"]
        elif scaling != "none":
            raise ValueError(f"RoPE scaling {scaling}")
        if "rope_freqs.weight" in self.tensors:
            frequencies = frequencies / self.tensors["rope_freqs.weight"]
        return frequencies, magnitude

    def _linear(self, x, name):
        y = x @ self.tensors[name + ".weight"].T
        return y + self.tensors[name + ".bias"] if name + ".bias" in self.tensors else y

    def _norm(self, x, name):
        return (
            x
            / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.eps)
            * self.tensors[name + ".weight"]
        )

    def _rotate(self, x):
        """x: [num_tokens, heads, head_dim]"""
        angles = np.arange(x.shape[0])[:, None] * self.frequencies[None, :]
        cos, sin = (np.cos(angles) * self.magnitude)[:, None, :], (np.sin(angles) * self.magnitude)[
            :, None, :
        ]
        half = self.rot_dim // 2
        if self.architecture in NEOX_ARCHITECTURES:
            first, second = slice(0, half), slice(half, self.rot_dim)
        else:
            first, second = slice(0, self.rot_dim, 2), slice(1, self.rot_dim, 2)
        turned = x.copy()
        turned[..., first] = x[..., first] * cos - x[..., second] * sin
        turned[..., second] = x[..., first] * sin + x[..., second] * cos
        return turned

    def _attention(self, x, layer):
        n = x.shape[0]
        q = self._rotate(
            self._linear(x, f"{layer}.attn_q").reshape(n, self.num_heads, self.head_dim)
        )
        k = self._rotate(
            self._linear(x, f"{layer}.attn_k").reshape(n, self.num_kv_heads, self.head_dim)
        )
        v = self._linear(x, f"{layer}.attn_v").reshape(n, self.num_kv_heads, self.head_dim)
        visible = np.tril(np.ones((n, n), dtype=bool))
        heads = []
        for head in range(self.num_heads):
            kv_head = head * self.num_kv_heads // self.num_heads
            scores = q[:, head] @ k[:, kv_head].T / math.sqrt(self.head_dim)
            scores = np.where(visible, scores, -np.inf)
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            heads.append(weights / weights.sum(axis=-1, keepdims=True) @ v[:, kv_head])
        return self._linear(np.concatenate(heads, axis=-1), f"{layer}.attn_output")

    def _feed_forward(self, x, layer):
        gate = self._linear(x, f"{layer}.ffn_gate")
        return self._linear(
            gate / (1.0 + np.exp(-gate)) * self._linear(x, f"{layer}.ffn_up"), f"{layer}.ffn_down"
        )

    def logprobs(self, token_ids):
        """float64 [num_tokens, vocab_size]: row i is of the token after tokens 0..i."""
        x = self.tensors["token_embd.weight"][np.asarray(token_ids)]
        for index in range(self.num_layers):
            layer = f"blk.{index}"
            x = x + self._attention(self._norm(x, f"{layer}.attn_norm"), layer)
            x = x + self._feed_forward(self._norm(x, f"{layer}.ffn_norm"), layer)
        x = self._norm(x, "output_norm")
        logits = self._linear(x, "output" if "output.weight" in self.tensors else "token_embd")
        shifted = logits - logits.max(axis=-1, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("token_ids", help="comma-separated")
    args = parser.parse_args()
    token_ids = [int(part) for part in args.token_ids.split(",")]
    for position, row in enumerate(Model(args.model).logprobs(token_ids)):
        top = np.argsort(-row)[:5]
        print(
            f"{position:4d} {token_ids[position]:6d}  "
            + "  ".join(f"{i}:{row[i]:.6f}" for i in top)
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
