"""Random blocks of the formats for which the package `gguf` has a decoder but no quantiser.

Every byte of the quantised values and of the small scales is random; the float16 scales are chosen
so that the decoded values have about the asked standard deviation and a mean near zero.
"""

import gguf
import numpy as np

_TYPES = gguf.GGMLQuantizationType

# Where a block's float16 scale d, and the scale of its minimum, lie; None where it has none.
_SCALES = {
    _TYPES.Q2_K: (80, 82),
    _TYPES.Q3_K: (108, None),
    _TYPES.Q4_K: (0, 2),
    _TYPES.Q5_K: (0, 2),
    _TYPES.Q6_K: (208, None),
    _TYPES.IQ4_NL: (0, None),
}
# The ratio of the minimum's scale to d that centres the values: the mean quantised value.
_MIDDLE = {_TYPES.Q2_K: 1.5, _TYPES.Q4_K: 7.5, _TYPES.Q5_K: 15.5}


def has(quant_type):
    return quant_type in _SCALES


def make(rng, quant_type, rows, columns, deviation):
    """uint8 [rows, bytes of a row]"""
    block_size, type_size = gguf.GGML_QUANT_SIZES[quant_type]
    blocks = rng.integers(0, 256, (rows * columns // block_size, type_size), dtype=np.uint8)
    d_at, min_at = _SCALES[quant_type]

    def set_scales(d):
        blocks[:, d_at : d_at + 2] = d.astype(np.float16)[:, None].view(np.uint8)
        if min_at is not None:
            minimum = d * _MIDDLE[quant_type]
            blocks[:, min_at : min_at + 2] = minimum.astype(np.float16)[:, None].view(np.uint8)

    spread = rng.uniform(0.5, 1.5, len(blocks))
    set_scales(spread * 2.0**-8)
    decoded = gguf.quants.dequantize(blocks, quant_type)
    set_scales(spread * (2.0**-8 * deviation / decoded.std()))
    return blocks.reshape(rows, columns // block_size * type_size)
