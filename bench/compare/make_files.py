#!/usr/bin/env python3
"""Makes the files that formats are compared on.

  bench/compare/make_files.py -m MODEL.gguf --output FOLDER [--only NAME]

MODEL's matrices are decoded and stored anew: f16 and q8_0 in that format, q4_0 and q5_0 with Q8_0 for the embedding. q4_k is another model, with
random weights, because MODEL's rows may be no multiple of 256: hidden size 2,048, 8 layers, Q6_K for the value, down and output matrices, MODEL's
tokenizer. Each file is FOLDER/NAME.gguf. Needs numpy and gguf from PyPI.
"""

import argparse
import pathlib
import sys

import gguf
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/tools"))
import random_blocks  # noqa: E402

TYPES = gguf.GGMLQuantizationType
STORED_ANEW = {"f16": TYPES.F16, "q8_0": TYPES.Q8_0, "q4_0": TYPES.Q4_0, "q5_0": TYPES.Q5_0}
FILE_TYPES = {"f16": gguf.LlamaFileType.MOSTLY_F16, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
              "q4_0": gguf.LlamaFileType.MOSTLY_Q4_0, "q5_0": gguf.LlamaFileType.MOSTLY_Q5_0}
EMBEDDING = "token_embd.weight"
# What GGUFWriter says itself.
OWN_KEYS = (gguf.Keys.General.ARCHITECTURE, gguf.Keys.General.FILE_TYPE, gguf.Keys.General.ALIGNMENT)
# The random model.
LAYERS, HIDDEN, FFN, HEADS, KV_HEADS, HEAD_DIM, CONTEXT = 8, 2048, 5632, 32, 4, 64, 8192
DEVIATION = 0.02


def copy_field(writer, field):
    """One key and its value, of whatever type."""
    kind = field.types[0]
    writer.add_key_value(field.name, field.contents(), kind, sub_type=field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)


def copy_metadata(writer, reader, is_wanted):
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name not in OWN_KEYS and is_wanted(field.name):
            copy_field(writer, field)


def write(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def store_anew(reader, path, name):
    target = STORED_ANEW[name]
    writer = gguf.GGUFWriter(path, reader.fields[gguf.Keys.General.ARCHITECTURE].contents())
    copy_metadata(writer, reader, lambda key: True)
    writer.add_file_type(FILE_TYPES[name])
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if values.ndim == 1:
            kind = TYPES.F32
        elif tensor.name == EMBEDDING and target != TYPES.F16:
            kind = TYPES.Q8_0
        else:
            kind = target
        writer.add_tensor(tensor.name, gguf.quants.quantize(values.astype(np.float32), kind), raw_dtype=kind)
    write(writer)


def shapes():
    """(name, rows, columns, type) of the random model's matrices."""
    yield EMBEDDING, None, HIDDEN, TYPES.Q6_K  # tied to the output
    for layer in range(LAYERS):
        for name, rows, columns, kind in (
                ("attn_q", HEADS * HEAD_DIM, HIDDEN, TYPES.Q4_K), ("attn_k", KV_HEADS * HEAD_DIM, HIDDEN, TYPES.Q4_K),
                ("attn_v", KV_HEADS * HEAD_DIM, HIDDEN, TYPES.Q6_K), ("attn_output", HIDDEN, HEADS * HEAD_DIM, TYPES.Q4_K),
                ("ffn_gate", FFN, HIDDEN, TYPES.Q4_K), ("ffn_up", FFN, HIDDEN, TYPES.Q4_K), ("ffn_down", HIDDEN, FFN, TYPES.Q6_K)):
            yield f"blk.{layer}.{name}.weight", rows, columns, kind


def make_random(reader, path):
    vocab_size = len(reader.fields[gguf.Keys.Tokenizer.LIST].contents())
    writer = gguf.GGUFWriter(path, "llama")
    copy_metadata(writer, reader, lambda name: name.startswith("tokenizer."))
    writer.add_name("random weights")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_K_M)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(vocab_size)
    random = np.random.default_rng(1)
    for name, rows, columns, kind in shapes():
        writer.add_tensor(name, random_blocks.make(random, kind, rows or vocab_size, columns, DEVIATION), raw_dtype=kind)
    norms = ["output_norm.weight"]
    norms += [f"blk.{layer}.{name}.weight" for layer in range(LAYERS) for name in ("attn_norm", "ffn_norm")]
    for name in norms:
        writer.add_tensor(name, np.ones(HIDDEN, dtype=np.float32))
    write(writer)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--output", metavar="FOLDER", required=True, type=pathlib.Path)
    parser.add_argument("--only", choices=(*STORED_ANEW, "q4_k"))
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    reader = gguf.GGUFReader(args.model)
    if "split.count" in reader.fields:
        parser.error(f"-m {args.model}: one file of several; join them first")
    for name in (args.only,) if args.only else (*STORED_ANEW, "q4_k"):
        path = args.output / f"{name}.gguf"
        if path.exists() and path.samefile(args.model):
            parser.error(f"--output: {path} is the model itself")
        if name in STORED_ANEW:
            store_anew(reader, path, name)
        else:
            make_random(reader, path)
        print(path)


if __name__ == "__main__":
    main()
