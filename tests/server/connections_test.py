"""Case V1: connections that do nothing, or read slowly, take nothing from the others."""

import contextlib
import json
import os
import resource
import socket
import time

from raw import post_text, read_until
from server import Server, ServerTest, main

HANG = 30  # seconds; far beyond what is right, for busy machines


def allow_many_files(count):
    """Whether this process may have `count` files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= count


class ConnectionsTest(ServerTest):
    def check_served(self, what):
        """Health and a completion for a newcomer; says how long they took."""
        start = time.monotonic()
        self.assertEqual(200, self.server.get("/health", timeout=HANG).status)
        health = time.monotonic() - start
        choice, _ = self.server.complete("The capital of France is", max_tokens=1)
        self.assertEqual(" Paris", choice["text"])
        print(f"{what}: health after {health * 1e3:.0f} ms, a token after {(time.monotonic() - start) * 1e3:.0f} ms")


class ManyConnections(ConnectionsTest):
    def test_200_idle_connections_hold_nobody_up(self):
        with contextlib.ExitStack() as stack:
            for _ in range(200):
                stack.enter_context(self.server.open_socket())
            self.check_served("200 idle connections")

    def test_64_connections_kept_alive_hold_nobody_up(self):
        with contextlib.ExitStack() as stack:
            kept = []
            for _ in range(64):
                connection = stack.enter_context(contextlib.closing(self.server.connect()))
                connection.request("GET", "/version")
                response = connection.getresponse()
                response.read()
                self.assertEqual(200, response.status)
                kept.append(connection)
            self.check_served("64 connections kept alive")
            for connection in kept:  # and they are still good
                connection.request("GET", "/version")
                self.assertEqual(200, connection.getresponse().status)

    def test_heads_that_never_end_hold_nobody_up(self):
        with contextlib.ExitStack() as stack:
            for _ in range(100):
                connection = stack.enter_context(self.server.open_socket())
                connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nX: ")
            self.check_served("100 unfinished heads")

    def test_32_streams_read_byte_by_byte_hold_nobody_up(self):
        body = {"prompt": "Once upon a time", "max_tokens": 500, "stream": True, "ignore_eos": True}
        with contextlib.ExitStack() as stack:
            readers = [stack.enter_context(self.server.open_socket()) for _ in range(32)]
            for reader in readers:
                reader.sendall(post_text("/v1/completions", body))
            for reader in readers:
                self.assertEqual(b"H", reader.recv(1))
            self.check_served("32 slow streams")
            for reader in readers:
                self.assertEqual(b"T", reader.recv(1))


class SlowReaders(ConnectionsTest):
    options = ("--write-timeout", "1")

    def test_a_reader_that_takes_nothing_is_dropped_and_its_request_with_it(self):
        # About 1 MB of events: more than the sockets' buffers take.
        body = {"prompt": "Once upon a time", "max_tokens": 1500, "stream": True, "ignore_eos": True, "logprobs": 20}
        reader = socket.socket()
        with contextlib.closing(reader):
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(("127.0.0.1", self.server.port))
            tokens = self.server.metrics()["vllm:generation_tokens_total"]
            reader.sendall(post_text("/v1/completions", body))
            self.server.wait_until(lambda: self.server.metrics()["vllm:num_requests_running"] == 1)
            self.server.wait_until(self.server.is_idle, timeout=120)
        self.assertLess(self.server.metrics()["vllm:generation_tokens_total"] - tokens, 1500)


class FewDescriptors(ConnectionsTest):
    """The server may have 1024 files open."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(limit_files=1024)
        cls.num_blocks = cls.server.get("/server_info").json()["kv_cache"]["num_blocks"]

    def processor_seconds(self):
        with open(f"/proc/{self.server.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def open_files(self):
        return len(os.listdir(f"/proc/{self.server.process.pid}/fd"))

    def test_5000_connections_leave_the_server_answering_and_at_rest(self):
        if not allow_many_files(5100):
            self.skipTest("this process may not have 5,100 files open")
        with contextlib.ExitStack() as stack:
            for _ in range(5000):
                with contextlib.suppress(ConnectionError):
                    stack.enter_context(self.server.open_socket())
            self.check_served("5,000 connections, 1,024 files")
            self.assertLessEqual(self.open_files(), 1024)
            start, used = time.monotonic(), self.processor_seconds()
            time.sleep(1)  # what is measured is a rate
            share = (self.processor_seconds() - used) / (time.monotonic() - start)
            print(f"at rest with 5,000 connections: {share:.2f} of a processor")
            self.assertLess(share, 0.5)
        self.server.wait_until(lambda: self.open_files() < 100, timeout=HANG)

    def test_more_busy_connections_than_files_are_refused_or_served(self):
        """Connections in the middle of a request are not closed for newcomers: those get 503."""
        if not allow_many_files(1300):
            self.skipTest("this process may not have 1,300 files open")
        head = b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n"
        with contextlib.ExitStack() as stack:
            busy = [stack.enter_context(self.server.open_socket()) for _ in range(1200)]
            refused = 0
            for connection in busy:
                with contextlib.suppress(ConnectionError):
                    connection.sendall(head)
            for connection in busy:
                with contextlib.suppress(ConnectionError):
                    connection.sendall(b'{"prompt":"x"}')
            for connection in busy:
                try:
                    status = read_until(connection, b"\r\n").split(b" ")[1:2]
                except ConnectionError:
                    status = []
                self.assertIn(status, ([b"200"], [b"503"], []))
                refused += status != [b"200"]
        self.assertLess(refused, 1200 - 500)
        self.check_served("after 1,200 busy connections")


class FewConnections(ConnectionsTest):
    options = ("--max-connections", "8")

    def test_the_longest_idle_connection_makes_room(self):
        with contextlib.ExitStack() as stack:
            idle = [stack.enter_context(self.server.open_socket()) for _ in range(8)]
            self.check_served("8 of 8 connections idle")
            self.assertEqual(b"", idle[0].recv(1))

    def test_connections_that_have_just_been_closed_make_room_at_once(self):
        for _ in range(500):
            with contextlib.ExitStack() as stack:
                for _ in range(8):
                    stack.enter_context(self.server.open_socket())
            self.assertEqual(200, self.server.get("/health").status)

    def test_while_all_connections_are_busy_a_newcomer_gets_503(self):
        body = {"prompt": "Once", "max_tokens": 2000, "stream": True, "ignore_eos": True}
        with contextlib.ExitStack() as stack:
            busy = [stack.enter_context(self.server.open_socket()) for _ in range(8)]
            for connection in busy:
                connection.sendall(post_text("/v1/completions", body))
            for connection in busy:
                self.assertTrue(read_until(connection, b"data: ").startswith(b"HTTP/1.1 200"))
            with self.server.open_socket() as newcomer:
                answer = read_until(newcomer, b"\0no mark")
            head, _, content = answer.partition(b"\r\n\r\n")
            self.assertTrue(head.startswith(b"HTTP/1.1 503"), head)
            self.assertEqual("too_many_connections", json.loads(content)["error"]["code"])
        self.server.wait_until(lambda: self.server.log_text().count('" 499 ') == 8)
        self.server.wait_until(lambda: all(self.server.get("/health").status == 200 for _ in range(9)))


if __name__ == "__main__":
    main()
