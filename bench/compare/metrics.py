"""What is measured: each metric is a piece of work, exact in tokens, and gives tokens per second."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Metric:
    """kind says what is counted:

    prefill   prompt tokens up to the first token of one sequence
    decode    output tokens after the first of one sequence
    batch     output tokens of all sequences together while all of them decode
    requests  output tokens of all sequences together, from the first submission to the last token
    """

    key: str
    title: str
    kind: str
    prompt_tokens: int  # of each sequence that it alone has
    output_tokens: int = 0
    sequences: int = 1
    shared_tokens: int = 0  # before them, the same for all
    kv_bits: int | None = None  # of a K or V element; None: as the engine comes

    @property
    def context(self):
        """The most tokens that one sequence has; the token that ends a prefill comes before the output that is counted."""
        return self.shared_tokens + self.prompt_tokens + max(self.output_tokens, 1) + 1

    def quick(self):
        """The same in small, to see whether everything works."""
        def small(tokens):
            return max(tokens // 8, 8) if tokens else 0

        return dataclasses.replace(self, prompt_tokens=self.prompt_tokens if self.shared_tokens else small(self.prompt_tokens),
                                   output_tokens=small(self.output_tokens), shared_tokens=small(self.shared_tokens))


METRICS = (
    Metric("decode", "decode, short context", "decode", 16, 128),
    Metric("decode-1k", "decode at 1,024 tokens", "decode", 1024, 64),
    Metric("decode-4k", "decode at 4,096 tokens, 16-bit KV", "decode", 4096, 32, kv_bits=16),
    Metric("decode-4k-kv8", "decode at 4,096 tokens, 8-bit KV", "decode", 4096, 32, kv_bits=8),
    Metric("prefill-512", "prefill of 512 tokens", "prefill", 512),
    Metric("prefill-4k", "prefill of 4,096 tokens, 16-bit KV", "prefill", 4096, kv_bits=16),
    Metric("prefill-4k-kv8", "prefill of 4,096 tokens, 8-bit KV", "prefill", 4096, kv_bits=8),
    Metric("batch-4", "aggregate decode, 4 sequences", "batch", 128, 128, 4),
    Metric("batch-16", "aggregate decode, 16 sequences", "batch", 128, 128, 16),
    Metric("requests-16", "16 requests of 510 + 64 tokens, unshared", "requests", 510, 64, 16),
    Metric("requests-16-shared", "16 requests of 512 + 64 tokens, 510 shared", "requests", 2, 64, 16, shared_tokens=510),
)


def chosen(keys, quick=False):
    """The metrics of a comma-separated list, in the table's order; all without one. ValueError names what is wrong."""
    wanted = [metric.key for metric in METRICS] if keys is None else [key.strip() for key in keys.split(",") if key.strip()]
    if not wanted:
        raise ValueError("the list is empty")
    known = {metric.key for metric in METRICS}
    for key in wanted:
        if key not in known:
            raise ValueError(f"there is no metric '{key}'; there are {', '.join(metric.key for metric in METRICS)}")
    return [metric.quick() if quick else metric for metric in METRICS if metric.key in wanted]
