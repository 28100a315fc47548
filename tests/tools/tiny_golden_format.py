"""Reads and writes tests/golden/tiny/NAME.golden; the format is described in the README beside them."""

import dataclasses
import struct

import numpy as np

MAGIC = b"OCTOTINY"
VERSION = 1


@dataclasses.dataclass
class TinyGolden:
    vocab_size: int
    max_model_len: int  # tokens
    token_ids: np.ndarray  # int32 [num_tokens]
    positions: np.ndarray  # int32 [num_rows], ascending
    logprobs: np.ndarray  # float32 [num_rows, vocab_size]


def write(path, golden):
    with open(path, "wb") as f:
        f.write(MAGIC)
        f.write(
            struct.pack(
                "<IIIII",
                VERSION,
                golden.vocab_size,
                golden.max_model_len,
                len(golden.token_ids),
                len(golden.positions),
            )
        )
        f.write(np.asarray(golden.token_ids, dtype="<i4").tobytes())
        f.write(np.asarray(golden.positions, dtype="<i4").tobytes())
        f.write(np.asarray(golden.logprobs, dtype="<f4").tobytes())


def read(path):
    with open(path, "rb") as f:
        data = f.read()
    version, vocab_size, max_model_len, num_tokens, num_rows = struct.unpack_from("<IIIII", data, 8)
    if data[:8] != MAGIC or version != VERSION:
        raise ValueError(f"{path}: not a tiny golden of version {VERSION}")
    at = 28
    token_ids = np.frombuffer(data, "<i4", num_tokens, at)
    at += token_ids.nbytes
    positions = np.frombuffer(data, "<i4", num_rows, at)
    at += positions.nbytes
    logprobs = np.frombuffer(data, "<f4", num_rows * vocab_size, at).reshape(num_rows, vocab_size)
    return TinyGolden(vocab_size, max_model_len, token_ids, positions, logprobs)
