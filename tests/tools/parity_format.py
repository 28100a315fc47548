"""Reads and writes parity goldens: for every position of some token sequences, the most likely
next tokens and the rest.

The format is described in tests/golden/parity/README.md. All numbers are little-endian.
"""

import dataclasses
import struct

import numpy as np

MAGIC = b"OCTPARIT"
VERSION = 1
KIND_PROMPT = 0
KIND_WIKITEXT = 1


@dataclasses.dataclass
class Sequence:
    name: str
    kind: int
    token_ids: np.ndarray  # int32 [num_tokens]
    next_logprobs: (
        np.ndarray
    )  # float32 [num_tokens], of token i + 1 after tokens 0..i; 0 at the last
    rest_logprobs: np.ndarray  # float32 [num_tokens], log of the mass outside the top ids
    top_ids: np.ndarray  # uint16 [num_tokens, top_k], most likely first
    top_logprobs: np.ndarray  # float32 [num_tokens, top_k], natural logarithm, descending


@dataclasses.dataclass
class Golden:
    model_sha256: str
    vocab_size: int
    top_k: int
    sequences: list


def write(path, golden):
    with open(path, "wb") as f:
        f.write(MAGIC)
        f.write(
            struct.pack("<IIII", VERSION, golden.top_k, golden.vocab_size, len(golden.sequences))
        )
        f.write(bytes.fromhex(golden.model_sha256))
        for s in golden.sequences:
            name = s.name.encode()
            f.write(struct.pack("<III", len(name), s.kind, len(s.token_ids)) + name)
            f.write(s.token_ids.astype("<i4").tobytes())
            f.write(s.next_logprobs.astype("<f4").tobytes())
            f.write(s.rest_logprobs.astype("<f4").tobytes())
            f.write(s.top_logprobs.astype("<f4").tobytes())
            f.write(s.top_ids.astype("<u2").tobytes())


def read(path):
    with open(path, "rb") as f:
        data = f.read()
    if data[:8] != MAGIC:
        raise ValueError(f"{path}: not a parity golden")
    version, top_k, vocab_size, num_sequences = struct.unpack_from("<IIII", data, 8)
    if version != VERSION:
        raise ValueError(f"{path}: version {version}, expected {VERSION}")
    sha256 = data[24:56].hex()
    at = 56

    def take(dtype, *shape):
        nonlocal at
        count = int(np.prod(shape))
        values = np.frombuffer(data, dtype, count, at).reshape(shape)
        at += values.nbytes
        return values

    sequences = []
    for _ in range(num_sequences):
        name_len, kind, n = struct.unpack_from("<III", data, at)
        at += 12
        name = data[at : at + name_len].decode()
        at += name_len
        token_ids = take("<i4", n)
        next_logprobs = take("<f4", n)
        rest = take("<f4", n)
        top_logprobs = take("<f4", n, top_k)
        top_ids = take("<u2", n, top_k)
        sequences.append(
            Sequence(name, kind, token_ids, next_logprobs, rest, top_ids, top_logprobs)
        )
    if at != len(data):
        raise ValueError(f"{path}: {len(data) - at} bytes left over")
    return Golden(sha256, vocab_size, top_k, sequences)
