"""Case X3: health answers at once, whatever the model is doing."""

import http.client
import threading
import time

from paused import other_threads_paused
from server import Server, ServerTest, ids, main

HANG = 5  # seconds; the case wants 0.2, on a quiet machine


class Poller:
    """Asks for /health every 50 ms on a connection of its own."""

    def __init__(self, server):
        self.server, self.seconds, self.statuses = server, [], set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _run(self):
        while not self._stop.is_set():
            start = time.monotonic()
            self.statuses.add(self.server.get("/health", timeout=60).status)
            self.seconds.append(time.monotonic() - start)
            self._stop.wait(0.05)

    def p99(self):
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]


class HealthWhileComputing(ServerTest):
    def test_a_prefill_of_8000_tokens_and_decoding_do_not_hold_health_up(self):
        with Poller(self.server) as poller:
            choice, answer = self.server.complete(ids(8000), max_tokens=40, ignore_eos=True)
        self.assertEqual(8000, answer["usage"]["prompt_tokens"])
        self.assertEqual("length", choice["finish_reason"])
        print(f"health during a prefill of 8,000 tokens: {len(poller.seconds)} polls, p99 {poller.p99() * 1e3:.1f} ms, "
              f"longest {max(poller.seconds) * 1e3:.1f} ms")
        self.assertEqual({200}, poller.statuses)
        self.assertGreater(len(poller.seconds), 10)
        self.assertLess(poller.p99(), HANG)

    def test_a_crowd_of_requests_does_not_hold_health_up(self):
        def ask(i):
            self.server.complete(ids(100, first=1000 + 100 * i), max_tokens=20)
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(32)]
        with Poller(self.server) as poller:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        print(f"health among 32 requests: p99 {poller.p99() * 1e3:.1f} ms")
        self.assertEqual({200}, poller.statuses)
        self.assertLess(poller.p99(), HANG)


class HealthFromTheStart(ServerTest):
    """Servers of its own: what is tested is their beginning."""

    @classmethod
    def setUpClass(cls):
        pass

    @classmethod
    def tearDownClass(cls):
        pass

    def tearDown(self):
        pass

    def test_the_port_answers_before_the_model_is_there(self):
        start = time.monotonic()
        with Server(wait=False) as server:
            first = server.get("/health", timeout=HANG)
            seconds = time.monotonic() - start
            with Poller(server) as poller:
                server.wait_for_log("ready: ")
                ready = server.get("/health")
            print(f"first answer {seconds * 1e3:.0f} ms after the start: {first.status}; "
                  f"p99 while loading {poller.p99() * 1e3:.1f} ms")
        self.assertIn(first.status, (200, 503))
        self.assertLess(seconds, HANG)
        self.assertEqual(200, ready.status)
        self.assertLess(poller.p99(), HANG)
        self.assertLessEqual(poller.statuses, {200, 503})

    def test_while_the_model_is_loaded_routes_answer_503_and_then_serve(self):
        with Server(wait=False) as server:
            try:
                with other_threads_paused(server.process.pid):
                    self.check_loading(server)
            except PermissionError as error:
                self.skipTest(f"threads cannot be paused: {error}")
            server.wait_for_log("ready: ")
            for path in ("/health", "/ready", "/v1/models", "/v1/loads", "/server_info"):
                with self.subTest(path):
                    self.assertEqual(200, server.get(path).status)
            self.assertEqual("float16", server.get("/server_info").json()["kv_cache"]["dtype"])
            choice, _ = server.complete("The capital of France is", max_tokens=1)
            self.assertEqual(" Paris", choice["text"])

    def check_loading(self, server):
        for path in ("/health", "/ready", "/v1/models", "/v1/loads", "/server_info"):
            with self.subTest(path):
                error = self.assert_refused(server.get(path, timeout=HANG), 503)
                self.assertEqual("loading", error["code"])
        for path in ("/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize", "/v1/completions/render",
                     "/v1/chat/completions/render", "/v1/completions/explain",
                     "/v1/chat/completions/explain", "/reset_prefix_cache", "/check_integrity"):
            with self.subTest(path):
                error = self.assert_refused(server.post(path, {"prompt": "x"}, timeout=HANG), 503)
                self.assertEqual("loading", error["code"])
        for path in ("/metrics", "/version", "/openapi.json"):  # what needs no model
            with self.subTest(path):
                self.assertEqual(200, server.get(path, timeout=HANG).status)
        self.assert_refused(server.get("/nowhere", timeout=HANG), 404)

    def test_a_signal_while_the_model_is_loaded_ends_the_server(self):
        with Server(wait=False) as server:
            self.assertEqual(0, server.stop(timeout=60))

    def test_a_model_that_cannot_be_loaded_ends_the_server_with_a_message(self):
        with self.assertRaises((RuntimeError, http.client.HTTPException, ConnectionError)) as caught:
            Server(model=__file__)
        self.assertIn("health_test.py", str(caught.exception))


if __name__ == "__main__":
    main()
