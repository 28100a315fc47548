"""The server over TLS, with a certificate made for the test."""

import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import warnings

import raw
import server
from server import Server, ServerTest, ids

ENDLESS = {"prompt": ids(8), "max_tokens": 4096, "ignore_eos": True, "temperature": 0}


def make_certificate(folder):
    """(certificate, key), PEM, for 127.0.0.1."""
    certificate, key = (os.path.join(folder, name) for name in ("certificate.pem", "key.pem"))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


class TlsServer(Server):
    def __init__(self, certificate, key, *arguments):
        self.context = ssl.create_default_context(cafile=certificate)
        super().__init__("--ssl-certfile", certificate, "--ssl-keyfile", key, *arguments)

    def connect(self, timeout=120):
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout,
                                           context=self.context)

    def open_socket(self, timeout=60):
        return self.context.wrap_socket(super().open_socket(timeout), server_hostname="127.0.0.1")


class TlsTest(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.certificate, cls.key = make_certificate(cls.folder.name)
        cls.server = TlsServer(cls.certificate, cls.key, "--max-model-len", 4200,
                               "--max-num-seqs", 1)
        cls.num_blocks = cls.server.get("/server_info").json()["kv_cache"]["num_blocks"]

    def send(self, **fields):
        connection = self.server.open_socket()
        self.addCleanup(connection.close)
        connection.sendall(raw.post_text("/v1/completions", {**ENDLESS, **fields}))
        return connection

    def assert_gives_way(self):
        """One place to run: the next request is served only when the one before is gone."""
        choice, _ = self.server.complete(ids(4), max_tokens=2, ignore_eos=True)
        self.assertEqual(choice["finish_reason"], "length")

    def test_the_certificate_is_the_one_given(self):
        connection = self.server.open_socket()
        self.addCleanup(connection.close)
        with open(self.certificate, encoding="ascii") as file:
            self.assertEqual(connection.getpeercert(binary_form=True),
                             ssl.PEM_cert_to_DER_cert(file.read()))
        self.assertIn(connection.version(), ("TLSv1.2", "TLSv1.3"))

    def test_one_connection_serves_several_requests_streamed_and_not(self):
        expected, _ = self.server.complete(ids(8), max_tokens=8, ignore_eos=True)
        connection = self.server.connect()
        self.addCleanup(connection.close)
        for stream in (False, True, False, True):
            body = {**ENDLESS, "max_tokens": 8, "stream": stream}
            connection.request("POST", "/v1/completions", json.dumps(body))
            response = connection.getresponse()
            answer = server.Answer(response.status, {}, response.read())
            answers = answer.events() if stream else [answer.json()]
            text = "".join(part["choices"][0]["text"] for part in answers)
            self.assertEqual(text, expected["text"])

    def test_a_prompt_and_an_answer_of_many_records_come_whole(self):
        body = {"prompt": "word " * 20_000, "max_tokens": 1}
        answer = self.server.post("/v1/completions", body)
        self.assertEqual(self.assert_refused(answer)["code"], "context_length_exceeded")
        tokens = self.server.post("/tokenize", body).json()["tokens"]
        self.assertGreater(len(tokens), 20_000)

    def test_a_stream_whose_client_closes_ends(self):
        """C3a"""
        connection = self.send(stream=True)
        while b"data: " not in connection.recv(4096):
            pass
        connection.close()
        self.assert_gives_way()

    def test_an_unstreamed_answer_whose_client_closes_is_not_computed_to_its_end(self):
        """C3b"""
        for leave in (ssl.SSLSocket.close, raw.reset):
            with self.subTest(leave=leave.__name__):
                connection = self.send()
                self.server.wait_until(
                    lambda: self.server.metrics()["vllm:num_requests_running"] == 1)
                leave(connection)
                self.assert_gives_way()

    def test_clients_that_do_not_speak_tls_harm_nobody(self):
        for data in (b"GET /health HTTP/1.1\r\nHost: test\r\n\r\n",
                     b"\x16\x03\x01\xff\xff" + b"a" * 99, b"\0" * 4096, b""):
            with self.subTest(data=data[:16]):
                connection = socket.create_connection(("127.0.0.1", self.server.port), 60)
                self.addCleanup(connection.close)
                connection.sendall(data)
                raw.half_close(connection)
                self.assertNotIn(b"200", raw.read_to_end_or_reset(connection))
        self.assertEqual(self.server.get("/health").status, 200)

    def test_versions_before_1_2_are_refused(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        with socket.create_connection(("127.0.0.1", self.server.port), 60) as connection:
            # The server's word; without it the client would have found nothing to offer.
            with self.assertRaisesRegex(ssl.SSLError, "(?i)alert.protocol.version"):
                context.wrap_socket(connection)


if __name__ == "__main__":
    if shutil.which("openssl") is None:
        print("skipped: no openssl program")
        sys.exit(server.SKIPPED)
    server.main()
