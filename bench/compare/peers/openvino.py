"""OpenVINO GenAI: reads the same GGUF file; K and V in u8 unless a metric says otherwise."""

from peers import environments
from peers.worker import WorkerEngine

PACKAGES = ["openvino-genai==2026.4.1", "numpy"]


class OpenVino(WorkerEngine):
    key = "openvino"
    name = "OpenVINO GenAI"
    script = "openvino_worker.py"

    def __init__(self, setup, python=None):
        super().__init__(setup)
        self.python = python

    def prepare(self):
        self.python = self.python or environments.make(self.setup.work / "openvino", self.setup.log(self.key), [PACKAGES])

    def options(self, metric):
        return {"model": self.setup.model, "threads": self.setup.threads, "kv_bits": metric.kv_bits,
                "one_stream": metric.kind in ("decode", "prefill"), "context": self.setup.context}
