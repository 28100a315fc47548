"""aiperf, an independent load generator, against the server: aiperf_test.py FOLDER, where its environment is made.

Its packages take a gigabyte, so that only the full check (OCTAVO_FULL_TESTS) installs and runs it.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import server
from server import MODEL, SKIPPED, ServerTest

HERE = pathlib.Path(__file__).parent
NUM_REQUESTS = 24
NUM_OUTPUT_TOKENS = 8
TOKENIZER = "octavo/default"


class AiperfTest(ServerTest):
    environment = None

    def test_it_completes_all_requests_and_counts_the_tokens_that_the_server_counted(self):
        before = self.server.metrics()
        with tempfile.TemporaryDirectory() as folder:
            report = self.profile(pathlib.Path(folder))
        after = self.server.metrics()
        generated = after["vllm:generation_tokens_total"] - before.get("vllm:generation_tokens_total", 0)
        self.assertEqual(report["request_count"]["avg"], NUM_REQUESTS)
        self.assertFalse(report.get("error_request_count"))
        self.assertEqual(report["output_sequence_length"]["avg"], NUM_OUTPUT_TOKENS)
        self.assertEqual(generated, NUM_REQUESTS * NUM_OUTPUT_TOKENS)

    def profile(self, folder):
        """Its report on chats that are streamed to four users."""
        python = self.environment / "bin" / "python"
        offline = {**os.environ, "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1"}
        subprocess.run([python, HERE / "aiperf_tokenizer.py", MODEL, folder / "hf", TOKENIZER], check=True, env=offline)
        model = self.server.get("/v1/models").json()["data"][0]["id"]
        command = [self.environment / "bin" / "aiperf", "profile", "-m", model, "--tokenizer", TOKENIZER,
                   "-u", self.server.base_url, "--endpoint-type", "chat", "--streaming", "--concurrency", "4",
                   "--request-count", NUM_REQUESTS, "--prompt-input-tokens-mean", 60,
                   "--prompt-output-tokens-mean", NUM_OUTPUT_TOKENS, "--extra-inputs", "ignore_eos:true",
                   "--use-server-token-count", "--no-gpu-telemetry", "--ui-type", "none", "--random-seed", "7",
                   "--output-artifact-dir", folder / "out"]
        done = subprocess.run([str(word) for word in command], env=offline, cwd=folder, capture_output=True, text=True,
                              timeout=400, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads((folder / "out" / "profile_export_aiperf.json").read_text())


if __name__ == "__main__":
    if MODEL is None or not os.environ.get("OCTAVO_FULL_TESTS"):
        print("skipped: aiperf is installed and run by scripts/test --full, with a model")
        sys.exit(SKIPPED)
    AiperfTest.environment = pathlib.Path(sys.argv.pop(1)).resolve()
    subprocess.run([sys.executable, HERE / "make_environment.py", AiperfTest.environment, HERE / "requirements-aiperf.txt"],
                   check=True)
    server.main()
