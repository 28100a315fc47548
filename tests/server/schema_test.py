"""What /openapi.json promises, held against the server by schemathesis: thousands of requests made from the document."""

import pathlib
import subprocess
import sys
import tempfile

import server
from server import ServerTest

CHECKS = ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
          "response_schema_conformance", "negative_data_rejection", "missing_required_header", "unsupported_method",
          "allow_header_conformance"]
SEED = "20261130"


class SchemaTest(ServerTest):
    options = ("--max-model-len", "64")  # so that an answer without max_tokens ends soon

    def test_every_operation_answers_as_the_document_says(self):
        program = pathlib.Path(sys.executable).with_name("schemathesis")
        command = [program, "run", self.server.base_url + "/openapi.json", "--checks", ",".join(CHECKS), "--seed", SEED,
                   "--phases", "coverage,fuzzing", "--max-examples", "5", "--continue-on-failure", "--no-color",
                   "--request-timeout", "60"]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500, check=False)
        self.assertEqual(done.returncode, 0, f"seed {SEED}\n{done.stdout}")
        paths = self.server.get("/openapi.json").json()["paths"]
        num_operations = sum(len(operations) for path, operations in paths.items() if path != "/openapi.json")
        self.assertRegex(done.stdout, rf"Tested: {num_operations}\b")


if __name__ == "__main__":
    server.main()
