"""llama.cpp and ik_llama.cpp, through llama-bench and llama-batched-bench, which neither tokenise nor sample.

Of llama-bench the second of two samples counts; llama.cpp's warms up with a whole prompt, and needs one. llama-batched-bench
gets every case twice, for the same reason. It decodes all sequences in step, and knows no scheduler: it is the most that a
server on this engine could reach. Prompts are new in every process.
"""

import json
import pathlib
import shlex

from machine import commit, pinned
from peers import sources
from peers.base import Engine, NotMeasured, run

PROGRAMS = ("llama-bench", "llama-batched-bench")
COMMON_OPTIONS = ("-DGGML_NATIVE=ON", "-DLLAMA_CURL=OFF", "-DLLAMA_BUILD_TESTS=OFF")
WITHOUT_AMX = ("-DGGML_AMX_TILE=OFF", "-DGGML_AMX_INT8=OFF", "-DGGML_AMX_BF16=OFF",
               # A native build asks the compiler, not these options.
               "-DCMAKE_C_FLAGS=-mno-amx-tile -mno-amx-int8 -mno-amx-bf16",
               "-DCMAKE_CXX_FLAGS=-mno-amx-tile -mno-amx-int8 -mno-amx-bf16")
CONTEXT_STEP = 256  # tokens; llama.cpp rounds a sequence's room up to this


class LlamaCpp(Engine):
    key = name = "llama.cpp"
    option = "--llama-cpp"
    build_options = ("-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=OFF", "-DLLAMA_BUILD_APP=OFF",
                     "-DLLAMA_BUILD_UI=OFF")
    run_flags = ()
    prefill_samples = 1
    prefers_clang = True

    def __init__(self, setup, folder, flags=""):
        super().__init__(setup)
        self._folder, self._flags = folder and pathlib.Path(folder).resolve(), shlex.split(flags)
        self._programs = None
        self._commit = None
        self._build = "built elsewhere"

    def prepare(self):
        if not self._folder:
            raise NotMeasured(f"no {self.option} FOLDER was given")
        self._programs = sources.programs_in(self._folder, PROGRAMS[:1])  # without the other, some metrics
        if self._programs:
            return
        options = [*COMMON_OPTIONS, *self.build_options, *(() if self.setup.amx else WITHOUT_AMX)]
        compiler = sources.clang() if self.prefers_clang else None
        # CMake keeps the compiler that a folder began with.
        build = self.setup.work / (self.key + ("-clang" if compiler else "") + ("" if self.setup.amx else "-no-amx"))
        self._programs = sources.build(self._folder, build, options, PROGRAMS, self.setup.log(self.key), compiler)
        self._build = f"built by {pathlib.Path(compiler[1]).name if compiler else 'the default compiler'} for this processor"

    def depth_flags(self, metric):
        return ["-p", 0, "-n", metric.output_tokens, "-d", metric.prompt_tokens]

    def bench_command(self, metric):
        command = [self._programs / "llama-bench", "-m", self.setup.model, "-t", self.setup.threads, "-fa", 1, "-o", "json"]
        if metric.kind == "prefill":
            command += ["-p", metric.prompt_tokens, "-n", 0, "-r", self.prefill_samples]
        else:
            command += [*self.depth_flags(metric), "-r", 2]
        return command

    def batched_command(self, metric):
        # All of a shared prompt is shared: the few tokens of their own are not prefilled.
        prompt = metric.shared_tokens or metric.prompt_tokens
        room = -(-metric.context // CONTEXT_STEP) * CONTEXT_STEP * metric.sequences
        command = [self._programs / "llama-batched-bench", "-m", self.setup.model, "-t", self.setup.threads, "-fa", "on",
                   "-c", room, "-npp", prompt, "-ntg", metric.output_tokens, "-npl", f"{metric.sequences},{metric.sequences}"]
        return command + (["-pps"] if metric.shared_tokens else [])

    def command(self, metric):
        command = self.bench_command(metric) if metric.kind in ("prefill", "decode") else self.batched_command(metric)
        if metric.kv_bits == 8:
            command += ["-ctk", "q8_0", "-ctv", "q8_0"]
        return [str(word) for word in (*pinned(self.setup.threads), *command, *self.run_flags, *self._flags)]

    def measure(self, metric, seed):
        log = self.setup.log(self.key)
        output, errors = run(self.command(metric), log=log, folder=log.parent)  # it leaves a log of its own where it runs
        if metric.kind in ("batch", "requests"):
            return batched_tokens_per_s(metric, output + "\n" + errors)
        value, self._commit = bench_tokens_per_s(output)
        return value

    def about(self):
        known = self._commit if self._commit not in (None, "unknown") else None
        version = known or commit_of(self._folder) or "unknown commit"
        return {"version": version, "build": self._build, "flags": shlex.join(self.run_flags)}


class IkLlamaCpp(LlamaCpp):
    key = name = "ik_llama.cpp"
    option = "--ik-llama-cpp"
    # Attention kernels for the rarer KV formats take most of the build's time, and no metric uses them.
    build_options = ("-DGGML_IQK_FA_ALL_QUANTS=OFF", "-DLLAMA_BUILD_SERVER=OFF", "-DLLAMA_BUILD_EXAMPLES=ON")
    run_flags = ("-rtr",)
    prefers_clang = False  # version 16 of it crashes on iqk_gemm_floats.cpp
    prefill_samples = 2  # its warm-up is one token

    def depth_flags(self, metric):
        return ["-p", 0, "-n", 0, "-gp", f"{metric.prompt_tokens},{metric.output_tokens}"]

    def bench_command(self, metric):
        return [*super().bench_command(metric), "-w", 1]

    def command(self, metric):
        command = super().command(metric)
        if metric.kind in ("prefill", "decode"):  # there the flag takes a value
            command.insert(command.index("-rtr") + 1, "1")
        return command


def commit_of(folder):
    """The checkout's own commit, not that of a repository around it."""
    return commit(folder) if folder and (folder / ".git").exists() else None


def bench_tokens_per_s(text):
    """(tokens per second of the last sample, commit) of llama-bench's JSON."""
    try:
        result = json.loads(text[text.index("["):])[-1]
        return result["samples_ts"][-1], result.get("build_commit")
    except (ValueError, KeyError, IndexError) as error:
        raise NotMeasured("llama-bench's JSON holds no samples_ts") from error


def batched_tokens_per_s(metric, text):
    """Of the last row of llama-batched-bench's table."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    header = next((row for row in rows if "S_TG t/s" in row), None)
    if not header or not rows[-1][0].isdigit() or len(rows[-1]) != len(header):
        raise NotMeasured("llama-batched-bench's table has no row: its context may be too small")
    last = dict(zip(header, map(float, rows[-1])))
    if metric.kind == "batch":
        return last["S_TG t/s"]
    return metric.sequences * metric.output_tokens / last["T s"]
