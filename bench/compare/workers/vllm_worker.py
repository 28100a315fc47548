"""vLLM's CPU engine, step by step, in this process. bench/compare/run starts it with the Python of vLLM's environment."""

import stepping


class Vllm:
    def __init__(self, options):
        import vllm

        kv = {"kv_cache_dtype": "fp8"} if options["kv_bits"] == 8 else {}
        llm = vllm.LLM(model=options["model"], dtype="bfloat16", max_model_len=options["context"], seed=0, **kv)
        self._engine = llm.llm_engine
        self._params = vllm.SamplingParams
        self._version = vllm.__version__
        self.vocab_size = llm.llm_engine.model_config.get_vocab_size()
        self._next_id = 0
        self._counts = {}  # {request id: tokens so far}

    def about(self):
        return f"vLLM {self._version}, bfloat16 weights"

    def submit(self, all_prompts, output_tokens):
        params = self._params(temperature=0.0, max_tokens=output_tokens, ignore_eos=True, detokenize=False)
        self._first_id = self._next_id
        for prompt in all_prompts:
            self._engine.add_request(str(self._next_id), {"prompt_token_ids": prompt}, params)
            self._counts[str(self._next_id)] = 0
            self._next_id += 1

    def is_running(self):
        return self._engine.has_unfinished_requests()

    def step(self):
        new = []
        for output in self._engine.step():
            count = len(output.outputs[0].token_ids)
            new.append((int(output.request_id) - self._first_id, count - self._counts[output.request_id]))
            self._counts[output.request_id] = count
        return new


if __name__ == "__main__":
    stepping.serve(Vllm)
