#!/usr/bin/env python3
"""Writes tests/golden/quant/*.txt: stored blocks and the float32 values that the PyPI package `gguf` decodes them to.

Usage: make_quant_golden.py OUTPUT_FOLDER          (needs: pip install gguf==0.19.0 numpy)

One file per format. Each block is two lines: its stored bytes in hex, and the bits of its values as little-endian float32 in
hex. Blocks have random codes; their FP16 scales are ordinary numbers, then extremes: zeros of both signs, subnormals, the largest
finite ones, infinities and NaN. narrow.txt holds, a line each, float32 bits and the FP16 and BF16 bits that they round to (FP16 by
numpy, BF16 by exact comparison of the two neighbours).
"""

import pathlib
import sys
from fractions import Fraction

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

# Byte offsets of the FP16 fields in a block.
HALF_OFFSETS = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "IQ4_NL": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}
ORDINARY = [0x2E66, 0xB0A1, 0x3C00, 0x1801]
EXTREMES = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00]


def blocks_of(name, rng):
    offsets = HALF_OFFSETS[name]
    _, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    scales = ORDINARY + EXTREMES
    blocks = rng.integers(0, 256, (len(scales), block_bytes), dtype=np.uint8)
    for i, scale in enumerate(scales):
        for k, offset in enumerate(offsets):
            # The minimum's scale runs through the same list in another order.
            bits = scales[(i + 3 * k) % len(scales)] if k else scale
            blocks[i, offset:offset + 2] = np.frombuffer(np.uint16(bits).tobytes(), np.uint8)
    return blocks


def write_format(folder, name, blocks):
    quantization = GGMLQuantizationType[name]
    lines = []
    for block in blocks:
        with np.errstate(all="ignore"):
            values = dequantize(block.reshape(1, -1), quantization).astype("<f4")
        lines.append(block.tobytes().hex())
        lines.append(values.tobytes().hex())
    (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")


def write_floats(folder, rng):
    """F32, F16 and BF16, 16 values a line."""
    for name, size in (("F32", 4), ("F16", 2), ("BF16", 2)):
        blocks = rng.integers(0, 256, (4, 16 * size), dtype=np.uint8)
        write_format(folder, name, blocks)


def bfloat16_bits(value):
    """The finite float32's nearest BF16, ties to even, by exact arithmetic."""
    bits = int(np.float32(value).view(np.uint32))
    low = bits >> 16
    exact = Fraction(float(np.uint32(bits & 0x7FFFFFFF).view(np.float32)))

    def magnitude(candidate):
        candidate &= 0x7FFF
        if candidate == 0x7F80:
            return Fraction(2) ** 128  # where the format's next finite number would be
        return Fraction(float(np.uint32(candidate << 16).view(np.float32)))

    below, above = exact - magnitude(low), magnitude(low + 1) - exact
    if below == above:
        return low + (low & 1)
    return low if below < above else low + 1


def write_narrow(folder, rng):
    values = [float(np.float32(x)) for x in rng.standard_normal(300) * 10.0 ** rng.integers(-9, 6, 300)]
    for half in (0x0000, 0x0001, 0x0002, 0x03FE, 0x03FF, 0x0400, 0x3BFF, 0x3C00, 0x3C01, 0x7BFE, 0x7BFF):
        exact = float(np.uint16(half).view(np.float16))
        above = 65536.0 if half == 0x7BFF else float(np.uint16(half + 1).view(np.float16))
        tie = np.float32((exact + above) / 2)
        values += [exact, float(tie), float(np.nextafter(tie, np.float32(0))),
                   float(np.nextafter(tie, np.float32(np.inf)))]
    for bits in (0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001, 0x00000001, 0x00008000, 0x00018000,
                 0x007FFFFF, 0x7F7F7FFF, 0x7F7F8000, 0x7F7FFFFF):
        values.append(float(np.uint32(bits).view(np.float32)))
    values += [-x for x in values]
    lines = []
    for value in values:
        single = np.float32(value)
        with np.errstate(over="ignore"):
            half = int(single.astype(np.float16).view(np.uint16))
        lines.append(f"{int(single.view(np.uint32)):08x} {half:04x} {bfloat16_bits(single):04x}")
    (folder / "narrow.txt").write_text("\n".join(lines) + "\n")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(20240917)
    for name in HALF_OFFSETS:
        write_format(folder, name, blocks_of(name, rng))
    write_floats(folder, rng)
    write_narrow(folder, rng)


if __name__ == "__main__":
    main()
