"""The server through curl, which speaks HTTP in its own way."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

from server import SKIPPED, ServerTest, main

CURL = ("curl", "-sS", "--noproxy", "*", "--max-time", "120")
JSON = ("-H", "Content-Type: application/json")


class CurlClient(ServerTest):
    def curl(self, path, *arguments, **options):
        return subprocess.run([*CURL, *arguments, self.server.base_url + path],
                              check=True, capture_output=True, timeout=130, **options).stdout

    def head_and_body(self, path, *arguments):
        """Status line, headers, body."""
        head, body = self.curl(path, "-i", *arguments).decode().split("\r\n\r\n", 1)
        status, *lines = head.split("\r\n")
        return status, {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}, body

    def test_posts_json(self):
        answer = json.loads(self.curl("/v1/completions", *JSON, "-d", '{"prompt": "1, 2, 3,", "max_tokens": 4}'))
        self.assertEqual(4, answer["usage"]["completion_tokens"])

    def test_a_stream_arrives_event_by_event(self):
        body = {"prompt": "1, 2, 3,", "max_tokens": 100, "stream": True, "ignore_eos": True}
        command = [*CURL, "-N", *JSON, "-d", json.dumps(body), self.server.base_url + "/v1/completions"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            first = process.stdout.readline()
            # The first event came before the last token was computed.
            self.server.wait_until(lambda: self.server.metrics()["vllm:num_requests_running"] == 1, timeout=5)
            rest = process.stdout.read()
        self.assertEqual(0, process.returncode)
        self.assertTrue(first.startswith(b"data: {"), first)
        self.assertTrue(rest.endswith(b"data: [DONE]\n\n"))

    def test_a_large_body_is_sent_after_100_continue(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"prompt": "x", "max_tokens": 1, "padding": "a" * (2 << 20)}, file)
            file.flush()
            # A server that ignores the expectation would let curl wait for this whole time.
            result = subprocess.run(
                [*CURL, "-v", "--expect100-timeout", "100", *JSON, "-H", "Expect: 100-continue", "--max-time", "60",
                 "-w", "%{http_code} %{size_upload}", "-o", os.devnull, "--data-binary", "@" + file.name,
                 self.server.base_url + "/v1/completions"],
                capture_output=True, text=True, timeout=70, check=True)
            size = os.path.getsize(file.name)
        self.assertEqual(f"200 {size}", result.stdout)
        self.assertIn("HTTP/1.1 100 Continue", result.stderr)

    def test_http_1_0_gets_a_body_that_ends_with_the_connection(self):
        body = '{"prompt": "1, 2, 3,", "max_tokens": 4, "stream": true}'
        status, headers, events = self.head_and_body("/v1/completions", "--http1.0", *JSON, "-d", body)
        self.assertIn(" 200", status)
        self.assertNotIn("transfer-encoding", headers)
        self.assertEqual("close", headers["connection"].lower())
        self.assertTrue(events.endswith("data: [DONE]\n\n"))

    def test_http_1_0_gets_whole_answers(self):
        status, headers, body = self.head_and_body("/health", "--http1.0")
        self.assertIn(" 200", status)
        self.assertEqual(str(len(body)), headers["content-length"])

    def test_head_gives_the_headers_of_get(self):
        status, headers, body = self.head_and_body("/health")
        status_of_head, headers_of_head, nothing = self.head_and_body("/health", "--head")
        self.assertEqual(status, status_of_head)
        self.assertEqual("", nothing)
        self.assertEqual(headers["content-length"], headers_of_head["content-length"])
        self.assertEqual(headers["content-type"], headers_of_head["content-type"])

    def test_a_stream_is_not_to_be_cached_or_buffered(self):
        _, headers, _ = self.head_and_body("/v1/completions", *JSON, "-d",
                                           '{"prompt": "1, 2, 3,", "max_tokens": 1, "stream": true}')
        self.assertTrue(headers["content-type"].startswith("text/event-stream"))
        self.assertIn("no-", headers["cache-control"])
        self.assertEqual("chunked", headers["transfer-encoding"])

    def test_a_connection_serves_several_requests(self):
        urls = [self.server.base_url + "/health"] * 2
        output = subprocess.run([*CURL, "-o", os.devnull, "-o", os.devnull, "-w", "%{num_connects} ", *urls],
                                check=True, capture_output=True, text=True, timeout=60).stdout
        self.assertEqual("1 0 ", output)

    def test_a_chunked_upload_is_a_body_like_any_other(self):
        answer = json.loads(self.curl("/v1/completions", *JSON, "-H", "Transfer-Encoding: chunked", "-d",
                                      '{"prompt": "1, 2, 3,", "max_tokens": 2}'))
        self.assertEqual(2, answer["usage"]["completion_tokens"])


if __name__ == "__main__":
    if shutil.which("curl") is None:
        print("skipped: no curl")
        sys.exit(SKIPPED)
    main()
