#!/usr/bin/env python3
"""Writes the seeds of fuzz/gguf_fuzz.cc with the PyPI package `gguf`, which is also what the reader's tests compare with.

Usage: make_gguf_cases.py OUTPUT_FOLDER          (needs: pip install gguf==0.19.0 numpy)

valid_*.gguf must open; bad_*.gguf must be refused; split.bin is two shards, as the fuzzer reads them: "SPLT", the first
shard's size as u32, both shards.
"""

import pathlib
import struct
import sys
import tempfile

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter

TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL"]


def written(fill, alignment=None):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "file.gguf"
        writer = GGUFWriter(path, "llama")
        if alignment:
            writer.add_custom_alignment(alignment)
        fill(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()


def scalars(writer):
    writer.add_uint8("u8", 200)
    writer.add_int8("i8", -100)
    writer.add_uint16("u16", 60000)
    writer.add_int16("i16", -30000)
    writer.add_uint32("u32", 4000000000)
    writer.add_int32("i32", -2000000000)
    writer.add_float32("f32", 0.5)
    writer.add_bool("bool", True)
    writer.add_string("string", "text")
    writer.add_uint64("u64", 1 << 63)
    writer.add_int64("i64", -(1 << 62))
    writer.add_float64("f64", 0.25)


def arrays(writer):
    writer.add_array("strings", ["a", "", "\u0120t"])
    writer.add_array("ints", [1, -2, 3])
    writer.add_array("floats", [0.5, -0.25])
    writer.add_array("bools", [True, False])
    writer.add_token_list(["<s>", "a", "b"])
    writer.add_token_types([3, 1, 1])
    writer.add_token_scores([0.0, -1.0, -2.0])
    writer.add_token_merges(["a b"])


def tensors(writer):
    rng = np.random.default_rng(7)
    for name in TYPES:
        quantization = GGMLQuantizationType[name]
        block_elements, block_bytes = GGML_QUANT_SIZES[quantization]
        if name == "F32":
            writer.add_tensor(f"{name}.weight", rng.standard_normal((3, 2)).astype(np.float32))
        else:
            blocks = max(1, 4 // block_elements)
            data = rng.integers(0, 256, (2, blocks * block_bytes), dtype=np.uint8)
            writer.add_tensor(f"{name}.weight", data, raw_dtype=quantization)


def shard(no, count, num_tensors, name):
    def fill(writer):
        writer.add_uint16("split.no", no)
        writer.add_uint16("split.count", count)
        writer.add_int32("split.tensors.count", num_tensors)
        writer.add_tensor(name, np.ones(4, np.float32))
    return written(fill)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    cases = {
        "valid_scalars.gguf": written(scalars),
        "valid_arrays.gguf": written(arrays),
        "valid_tensors.gguf": written(tensors),
        "valid_alignment.gguf": written(lambda w: w.add_tensor("a", np.ones((2, 4), np.float32)), alignment=64),
    }
    cases["valid_version2.gguf"] = cases["valid_scalars.gguf"][:4] + struct.pack("<I", 2) + cases["valid_scalars.gguf"][8:]
    cases["bad_version1.gguf"] = cases["valid_scalars.gguf"][:4] + struct.pack("<I", 1) + cases["valid_scalars.gguf"][8:]
    cases["bad_counts.gguf"] = b"GGUF" + struct.pack("<IQQ", 3, (1 << 64) - 1, 1 << 63)
    cases["bad_lone_shard.gguf"] = shard(0, 2, 2, "a")
    first, second = shard(0, 2, 2, "a"), shard(1, 2, 2, "b")
    cases["split.bin"] = b"SPLT" + struct.pack("<I", len(first)) + first + second
    for name, data in cases.items():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
