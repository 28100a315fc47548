"""Starts `octavo serve` for a test and talks to it; the port is a free one, and the end is a SIGTERM."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

PROGRAM = os.environ.get("OCTAVO_PROGRAM", "octavo")
SKIPPED = 77


def find_model():
    """The model's path, or None."""
    named = os.environ.get("OCTAVO_MODEL")
    if named:
        return named
    cache = os.environ.get("XDG_CACHE_HOME", os.path.join(os.path.expanduser("~"), ".cache"))
    path = os.path.join(cache, "octavo", "SmolLM2-135M-Instruct.Q4_1.gguf")
    return path if os.path.exists(path) else None


MODEL = find_model()


def main():
    """unittest.main that exits with 77 when there is no model."""
    if MODEL is None:
        print("skipped: no model; run scripts/fetch-model")
        sys.exit(SKIPPED)
    unittest.main()


class Answer:
    """A response, read whole."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body, parse_constant=self._refuse)

    @staticmethod
    def _refuse(constant):
        raise ValueError(f"{constant} is not JSON")

    def events(self):
        """The data of a stream of server-sent events, without the final [DONE]."""
        lines = [line for line in self.body.decode().split("\n\n") if line]
        assert lines[-1] == "data: [DONE]", lines[-1:]
        return [json.loads(line[len("data: "):]) for line in lines[:-1]]


class Server:
    """One server process. Use as a context manager."""

    def __init__(self, *arguments, wait=True, model=MODEL, environment=None, limit_files=None,
                 launcher=()):
        """`launcher` is a command that runs the command which follows it."""
        command = [PROGRAM, "serve", "-m", model, "--port", "0", *map(str, arguments)]
        if limit_files:
            command = ["sh", "-c", f'ulimit -n {limit_files}; exec "$@"', "sh", *command]
        self.process = subprocess.Popen(
            [*launcher, *command], stderr=subprocess.PIPE, env={**os.environ, **(environment or {})})
        self.log = []
        self._lock = threading.Condition()
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        self.port = int(self.wait_for_log(r"listening on .*:(\d+);").group(1))
        self.base_url = f"http://127.0.0.1:{self.port}"
        if wait:
            self.wait_for_log(r"ready: ")

    def _read_log(self):
        for line in self.process.stderr:
            with self._lock:
                self.log.append(line.decode(errors="replace"))
                self._lock.notify_all()
        with self._lock:
            self.log.append(None)
            self._lock.notify_all()

    def wait_for_log(self, pattern, timeout=120):
        deadline = time.monotonic() + timeout
        position = 0
        with self._lock:
            while True:
                while position < len(self.log):
                    line = self.log[position]
                    if line is None:
                        raise RuntimeError("the server ended: " + self.log_text())
                    found = re.search(pattern, line)
                    if found:
                        return found
                    position += 1
                if not self._lock.wait(max(deadline - time.monotonic(), 0)):
                    raise TimeoutError(f"no {pattern!r} in: {self.log_text()}")

    def log_text(self):
        return "".join(line for line in self.log if line is not None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self, timeout=60):
        """Drains the server; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout)
        self._reader.join(timeout)
        self.process.stderr.close()
        return code

    # --- requests ---

    def connect(self, timeout=120):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None, timeout=120):
        connection = self.connect(timeout)
        try:
            if body is not None and not isinstance(body, (bytes, str)):
                body = json.dumps(body)
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def get(self, path, **keywords):
        return self.request("GET", path, **keywords)

    def post(self, path, body, **keywords):
        return self.request("POST", path, body, **keywords)

    def complete(self, prompt, **fields):
        """The one choice of a greedy completion, and the whole answer."""
        body = {"prompt": prompt, "temperature": 0, **fields}
        answer = self.post("/v1/completions", body)
        assert answer.status == 200, answer.body
        return answer.json()["choices"][0], answer.json()

    def chat(self, content, **fields):
        """The one choice of a greedy answer to a conversation, and the whole answer."""
        messages = [{"role": "user", "content": content}] if isinstance(content, str) else content
        body = {"messages": messages, "temperature": 0, **fields}
        answer = self.post("/v1/chat/completions", body)
        assert answer.status == 200, answer.body
        return answer.json()["choices"][0], answer.json()

    def events(self, path, body, **keywords):
        """The events of a streamed answer."""
        answer = self.post(path, {**body, "stream": True}, **keywords)
        assert answer.status == 200, answer.body
        return answer.events()

    def open_socket(self, timeout=60):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def metrics(self):
        """name{labels without model_name and engine} -> value."""
        values = {}
        for line in self.get("/metrics").body.decode().splitlines():
            if line.startswith("#"):
                continue
            name, value = line.rsplit(" ", 1)
            name = re.sub(r'(model_name|engine)="[^"]*",?', "", name).replace(",}", "}").replace("{}", "")
            values[name] = float(value)
        return values

    def kv_blocks(self):
        """state -> number of blocks."""
        metrics = self.metrics()
        states = ("used", "cached", "free")
        return {state: int(metrics[f'octavo:kv_blocks{{state="{state}"}}']) for state in states}

    def is_idle(self):
        metrics = self.metrics()
        busy = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
        return all(metrics[name] == 0 for name in busy)

    def wait_until(self, condition, timeout=20):
        """Polls until condition() is true; what it gave."""
        deadline = time.monotonic() + timeout
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise TimeoutError("the condition did not come true")
            time.sleep(0.02)


class ServerTest(unittest.TestCase):
    """Tests that share one server. After each, the server must be idle and sound, and serve a known answer."""

    options = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.options)
        cls.num_blocks = cls.server.get("/server_info").json()["kv_cache"]["num_blocks"]

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, f"exit code {code}: {cls.server.log_text()[-2000:]}"

    def tearDown(self):
        self.server.wait_until(self.server.is_idle)
        blocks = self.server.kv_blocks()
        self.assertEqual(blocks["used"], 0)
        self.assertEqual(sum(blocks.values()), self.num_blocks)
        self.assertEqual(self.server.post("/check_integrity", "").json(), {"success": True})
        choice, _ = self.server.complete("The capital of France is", max_tokens=1)
        self.assertEqual(choice["text"], " Paris")

    def assert_refused(self, answer, status=400, param=None):
        """An error in the form that OpenAI's clients read."""
        self.assertEqual(answer.status, status, answer.body)
        error = answer.json()["error"]
        self.assertTrue(error["message"])
        self.assertTrue(error["type"])
        self.assertTrue(error["code"])
        if param:
            self.assertEqual(error["param"], param)
        return error


def ids(count, first=1000):
    """A prompt of exactly `count` token ids."""
    return [first + i for i in range(count)]
