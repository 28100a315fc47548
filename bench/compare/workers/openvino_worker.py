"""OpenVINO GenAI's continuous batching, step by step. bench/compare/run starts it with the Python of its environment."""

import stepping


class OpenVino:
    def __init__(self, options):
        import numpy
        import openvino
        import openvino_genai

        self._numpy, self._openvino, self._genai = numpy, openvino, openvino_genai
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.enable_prefix_caching = True
        if options["one_stream"]:  # what its pipeline for one stream does: no chunks
            scheduler.max_num_batched_tokens = max(scheduler.max_num_batched_tokens, options["context"])
        properties = {"INFERENCE_NUM_THREADS": options["threads"]}
        if options["kv_bits"]:
            properties["KV_CACHE_PRECISION"] = openvino.Type.f16 if options["kv_bits"] == 16 else openvino.Type.u8
        self._pipeline = openvino_genai.ContinuousBatchingPipeline(options["model"], scheduler, "CPU", properties)
        self.vocab_size = len(self._pipeline.get_tokenizer().get_vocab())
        self._next_id = 0
        self._handles = []

    def about(self):
        return f"OpenVINO GenAI {self._genai.__version__}"

    def submit(self, all_prompts, output_tokens):
        config = self._genai.GenerationConfig()
        config.max_new_tokens = output_tokens
        config.ignore_eos = True
        config.do_sample = False
        self._handles = []
        for prompt in all_prompts:
            ids = self._openvino.Tensor(self._numpy.array([prompt], dtype=self._numpy.int64))
            self._handles.append(self._pipeline.add_request(self._next_id, ids, config))
            self._next_id += 1

    def is_running(self):
        return self._pipeline.has_non_finished_requests()

    def step(self):
        self._pipeline.step()
        new = []
        for index, handle in enumerate(self._handles):
            while handle.can_read():
                new.append((index, sum(len(output.generated_ids) for output in handle.read().values())))
        return new


if __name__ == "__main__":
    stepping.serve(OpenVino)
