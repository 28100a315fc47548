"""Requests that are small to send and large to serve: each is refused before it costs anything."""

import json
import re

import raw
import server
from server import ServerTest


class HostileSizesTest(ServerTest):
    options = ("--max-body-bytes", 1 << 20)

    def rss_kib(self):
        with open(f"/proc/{self.server.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    def refused(self, body, *words, path="/v1/completions"):
        before = self.rss_kib()
        answer = self.server.post(path, body)
        self.assert_refused(answer)
        for word in words:
            self.assertIn(word, answer.json()["error"]["message"])
        self.assertLess(self.rss_kib() - before, 256 << 10)

    def test_parameters_are_not_multiplied_without_end(self):
        prompts = [[1000]] * 256
        self.refused({"prompt": prompts, "n": 128}, "choices", "2048")
        self.refused({"prompt": prompts, "stop": ["a"] * 65}, "64")
        self.refused({"prompt": prompts, "stop": "a" * 5000}, "4096")
        self.refused({"prompt": "x", "stop_token_ids": [0] * 1025}, "1024")
        self.refused({"prompt": prompts, "allowed_token_ids": list(range(40000)), "n": 8}, "bytes")

    def test_an_answer_is_not_multiplied_without_end(self):
        self.refused({"prompt": [list(range(1000, 5000))] * 16, "n": 128, "max_tokens": 1, "return_token_ids": True},
                     "bytes")

    def test_an_object_of_very_many_members_is_refused(self):
        self.refused(json.dumps({"prompt": "x", **{f"k{i}": 0 for i in range(66000)}}), "65536")

    def test_deep_tools_are_answered(self):
        parameters = {"type": "object"}
        for _ in range(45):
            parameters = {"a": parameters}
        tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
        answer = self.server.post("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "x"}], "tools": [tool], "max_tokens": 1})
        self.assertEqual(answer.status, 200, answer.body)

    def send_endlessly(self, head, piece, limit_bytes):
        """How many bytes the server took before it ended the connection."""
        sent = 0
        with self.server.open_socket() as connection:
            connection.sendall(head)
            try:
                while sent < limit_bytes:
                    connection.sendall(piece)
                    sent += len(piece)
            except (ConnectionError, TimeoutError):
                pass
        return sent

    def test_a_body_that_is_too_long_is_refused_and_logged_with_its_path(self):
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (2 << 20)
        before = len(self.server.log_text())
        with self.server.open_socket() as connection:
            connection.sendall(head)
            self.assertEqual(connection.recv(12), b"HTTP/1.1 413")
        self.server.wait_until(lambda: re.search(r"POST /v1/completions\b.*\b413\b", self.server.log_text()[before:]))

    def test_a_chunk_extension_without_end_is_cut(self):
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;"
        before = self.rss_kib()
        self.assertLess(self.send_endlessly(head, b"a" * 65536, 64 << 20), 32 << 20)
        self.assertLess(self.rss_kib() - before, 64 << 10)

    def test_trailers_without_end_are_cut(self):
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n"
        self.assertLess(self.send_endlessly(head, b"a: b\r\n" * 8192, 64 << 20), 32 << 20)

    def test_a_body_in_an_unknown_coding_is_not_taken_for_the_next_request(self):
        """Behind a proxy that reads it otherwise, that would be another client's request."""
        smuggled = b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n"
        for version, fields in (("1.1", "Transfer-Encoding: gzip"), ("1.1", "Transfer-Encoding: identity"),
                                ("1.1", "Transfer-Encoding: xchunked"), ("1.1", "Transfer-Encoding: chunked, identity"),
                                ("1.1", "Transfer-Encoding: gzip, chunked"),
                                ("1.1", "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked"),
                                ("1.1", "Transfer-Encoding: gzip\r\nContent-Length: 2"),
                                ("1.0", "Connection: keep-alive\r\nTransfer-Encoding: chunked")):
            with self.subTest(fields), self.server.open_socket() as connection:
                connection.sendall(f"POST /tokenize HTTP/{version}\r\nHost: x\r\n{fields}\r\n\r\n".encode() + smuggled)
                answer = raw.read_to_end_or_reset(connection)
                self.assertRegex(answer, rb"^HTTP/1.1 (400|501) ")
                self.assertEqual(answer.count(b"HTTP/1.1 "), 1, answer)

    def test_a_page_of_another_origin_may_not_call(self):
        for path in ("/reset_prefix_cache", "/v1/completions"):
            answer = self.server.post(path, "{}", headers={"Origin": "https://a.example", "Content-Type": "text/plain"})
            self.assertEqual(answer.status, 403, answer.body)


class TrailersTest(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.server = server.Server("--api-key", "secret")

    def tearDown(self):
        pass

    def test_a_body_is_not_read_without_a_key(self):
        request = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 30000000\r\n\r\n{"
        with self.server.open_socket() as connection:
            connection.sendall(request)  # and nothing more: who waited for the body would wait for ever
            head = connection.recv(4096)
        self.assertTrue(head.startswith(b"HTTP/1.1 401"), head)
        self.assertIn(b"Connection: close", head)

    def test_a_key_in_a_trailer_opens_nothing(self):
        body = b'{"prompt": "x", "max_tokens": 1}'
        request = (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
                   + b"%x\r\n" % len(body) + body + b"\r\n0\r\nAuthorization: Bearer secret\r\n\r\n")
        with self.server.open_socket() as connection:
            connection.sendall(request)
            self.assertEqual(connection.recv(12), b"HTTP/1.1 401")


if __name__ == "__main__":
    server.main()
