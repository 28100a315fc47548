#!/usr/bin/env python3
"""Checks the float64 forward pass of numpy_llama.py against Transformers, on the tiny models.

  python tests/tools/check_against_transformers.py tests/golden/tiny

Transformers' GGUF loader ignores the RoPE scalings of a file, so this script builds the model from
a configuration and hands it the dequantised weights, with Wq and Wk in Transformers' pair order.
The forward pass itself, the scalings' formulas included, is Transformers' own, in float64.
Needs torch and transformers from PyPI.
"""

import glob
import os
import sys

import gguf
import numpy as np
import torch
import transformers

import tiny_golden_format
from numpy_llama import Metadata, Model

_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def rope_parameters(meta, model):
    base = float(meta.arch("rope.freq_base"))
    kind = meta.arch("rope.scaling.type")
    parameters = {"rope_type": "default", "rope_theta": base}
    if kind is None and "rope_freqs.weight" in model.tensors:
        # What make_tiny_models.py derives the divisors from; the formula here is Transformers'.
        parameters.update(
            rope_type="llama3",
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=64,
        )
    elif kind is not None:
        parameters["rope_type"] = kind
        parameters["factor"] = float(meta.arch("rope.scaling.factor", 1.0))
        original = meta.arch("rope.scaling.original_context_length")
        if original is not None:
            parameters["original_max_position_embeddings"] = original
        attention_factor = meta.arch("rope.scaling.attn_factor")
        if kind == "yarn":
            parameters["beta_fast"] = float(meta.arch("rope.scaling.yarn_beta_fast", 32.0))
            parameters["beta_slow"] = float(meta.arch("rope.scaling.yarn_beta_slow", 1.0))
            if attention_factor is not None:
                # GGUF's factor multiplies YaRN's own; Transformers' takes its place.
                implied = 0.1 * np.log(parameters["factor"]) + 1.0
                parameters["attention_factor"] = float(attention_factor * implied)
        if kind == "longrope":
            parameters["long_factor"] = model.tensors["rope_factors_long.weight"].tolist()
            parameters["short_factor"] = model.tensors["rope_factors_short.weight"].tolist()
            parameters["attention_factor"] = float(attention_factor or 1.0)
    return parameters


def half_order(values, heads):
    """Rows of Wq, Wk or their biases from the order (2i, 2i+1) to (i, i + head_dim/2)."""
    split = values.reshape(heads, -1, 2, *values.shape[1:])
    return split.swapaxes(1, 2).reshape(values.shape)


def weights_of(model):
    state = {
        "model.embed_tokens.weight": model.tensors["token_embd.weight"],
        "model.norm.weight": model.tensors["output_norm.weight"],
        "lm_head.weight": model.tensors.get("output.weight", model.tensors["token_embd.weight"]),
    }
    for name, values in model.tensors.items():
        if not name.startswith("blk."):
            continue
        _, layer, part, suffix = name.split(".")
        if model.architecture == "llama" and part in ("attn_q", "attn_k"):
            values = half_order(values, model.num_heads if part == "attn_q" else model.num_kv_heads)
        state[f"model.layers.{layer}.{_NAMES[part]}.{suffix}"] = values
    return {name: torch.from_numpy(values.copy()) for name, values in state.items()}


def build(path, model):
    meta = Metadata(gguf.GGUFReader(path))
    has_bias = "blk.0.attn_output.bias" in model.tensors
    extra = {"attention_bias": has_bias, "mlp_bias": has_bias}
    config_class, model_class = transformers.LlamaConfig, transformers.LlamaForCausalLM
    if model.architecture == "qwen2":
        config_class, model_class, extra = (
            transformers.Qwen2Config,
            transformers.Qwen2ForCausalLM,
            {"use_sliding_window": False},
        )
    parameters = rope_parameters(meta, model)
    config = config_class(
        vocab_size=model.vocab_size,
        hidden_size=model.hidden_dim,
        intermediate_size=model.tensors["blk.0.ffn_up.weight"].shape[0],
        num_hidden_layers=model.num_layers,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=model.head_dim,
        rms_norm_eps=model.eps,
        max_position_embeddings=model.context_length,
        rope_parameters=parameters,
        tie_word_embeddings=False,
        attn_implementation="eager",
        **extra,
    )
    # Set afterwards: the constructor insists on hidden_size being a multiple of the heads.
    config.num_attention_heads = model.num_heads
    config.num_key_value_heads = model.num_kv_heads
    network = model_class(config).double().eval()
    network.load_state_dict(weights_of(model), strict=True)
    return network, parameters["rope_type"]


@torch.no_grad()
def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    worst = 0.0
    for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.gguf"))):
        golden = tiny_golden_format.read(path[: -len(".gguf")] + ".golden")
        network, rope_type = build(path, Model(path))
        logits = network(torch.tensor(golden.token_ids[None].astype(np.int64))).logits[0]
        logprobs = torch.log_softmax(logits.double(), dim=-1).numpy()[golden.positions]
        difference = float(np.abs(logprobs - golden.logprobs).max())
        worst = max(worst, difference)
        name = os.path.basename(path)
        print(f"{name:36s} {rope_type:9s} largest difference of a log-probability {difference:.1e}")
    print(f"worst {worst:.1e}")


if __name__ == "__main__":
    main()
