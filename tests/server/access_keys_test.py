"""Case V3: who is let in, on every route, and where keys must not show."""

import re

from raw import read_until
from server import Server, ServerTest, main

KEY = "sk-correct-horse-battery-staple"
OTHER = "sk-another-key-for-another-client"
ADMIN = "admin-of-this-machine"
OPEN = {"/health", "/ready", "/version", "/metrics"}
ADMINISTRATION = {"/server_info", "/reset_prefix_cache", "/check_integrity"}


class AccessByKey(ServerTest):
    options = ("--api-key", KEY, "--api-key", OTHER, "--admin-api-key", ADMIN)

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.options)

    def tearDown(self):
        log = self.server.log_text()
        for secret in (KEY, OTHER, ADMIN):
            self.assertNotIn(secret, log)
            self.assertNotIn(secret, self.server.get("/metrics").body.decode())
        self.assertEqual(200, self.get_models(f"Bearer {KEY}")[0])

    def send(self, method, path, *lines, body=b""):
        """Status, headers (bytes) and body of the answer to a request with these header lines."""
        head = [f"{method} {path} HTTP/1.1".encode(), b"Host: test", b"Connection: close",
                f"Content-Length: {len(body)}".encode(),
                *(line if isinstance(line, bytes) else line.encode() for line in lines)]
        with self.server.open_socket() as connection:
            connection.sendall(b"\r\n".join(head) + b"\r\n\r\n" + body)
            answer = read_until(connection, b"\0no mark")
        headers, _, content = answer.partition(b"\r\n\r\n")
        return int(headers.split()[1]), headers, content

    def get_models(self, *authorizations):
        lines = [b"Authorization: " + (a if isinstance(a, bytes) else a.encode()) for a in authorizations]
        return self.send("GET", "/v1/models", *lines)

    def routes(self):
        answer = self.server.get("/openapi.json", headers={"Authorization": f"Bearer {KEY}"}).json()
        found = {(method.upper(), path) for path, methods in answer["paths"].items() for method in methods}
        self.assertGreater(len(found), 12)
        return sorted(found)

    def test_each_of_the_keys_is_let_in(self):
        for key in (KEY, OTHER, ADMIN):
            with self.subTest(key=key):
                self.assertEqual(200, self.get_models(f"Bearer {key}")[0])

    def test_anything_but_the_exact_key_gets_the_same_answer(self):
        """V3, the matrix."""
        attempts = {
            "no header": [],
            "no scheme": [KEY],
            "no key": ["Bearer"],
            "no key but a space": ["Bearer "],
            "the scheme in lower case": [f"bearer {KEY}"],
            "no space": [f"Bearer{KEY}"],
            "two spaces": [f"Bearer  {KEY}"],
            "a tabulator": [f"Bearer\t{KEY}"],
            "prefix of the key": [f"Bearer {KEY[:-1]}"],
            "longer than the key": [f"Bearer {KEY}e"],
            "upper case": [f"Bearer {KEY.upper()}"],
            "the key quoted": [f'Bearer "{KEY}"'],
            "Basic": [f"Basic {KEY}"],
            "two keys in one header": [f"Bearer {KEY}, Bearer {OTHER}"],
            "the key and another header": [f"Bearer {KEY}", "Bearer nonsense"],
            "the other order": ["Bearer nonsense", f"Bearer {KEY}"],
            "bytes beyond ASCII": [b"Bearer \xff\xfe" + KEY.encode()],
            "the key's letters with an accent": [f"Bearer {KEY}\u00e9".encode()],
            "8 KiB": ["Bearer " + "k" * 8192],
        }
        bodies = set()
        for name, authorizations in attempts.items():
            with self.subTest(name):
                status, headers, body = self.get_models(*authorizations)
                self.assertEqual(401, status, body)
                self.assertIn(b"www-authenticate: bearer", headers.lower())
                bodies.add(body)
        self.assertEqual(1, len(bodies), bodies)

    def test_spaces_around_the_value_are_no_part_of_it(self):
        """RFC 9110, 5.5: white space around a field's value is not in the value."""
        self.assertEqual(200, self.get_models(f"  Bearer {KEY}  ")[0])

    def test_a_key_of_1_mib_is_refused_as_too_long_a_header(self):
        try:
            status, _, _ = self.get_models("Bearer " + "k" * (1 << 20))
        except (ConnectionResetError, BrokenPipeError):
            return  # the server has stopped reading
        self.assertIn(status, (401, 431))

    def test_a_key_in_the_query_counts_for_nothing(self):
        for query in (f"?api_key={KEY}", f"?key={KEY}", f"?access_token={KEY}", f"?Authorization=Bearer%20{KEY}"):
            with self.subTest(query):
                self.assertEqual(401, self.send("GET", "/v1/models" + query)[0])

    def test_a_key_in_other_headers_counts_for_nothing(self):
        for line in (f"X-Api-Key: {KEY}", f"Cookie: key={KEY}", f"Proxy-Authorization: Bearer {KEY}"):
            with self.subTest(line):
                self.assertEqual(401, self.send("GET", "/v1/models", line)[0])

    def test_every_route_asks_for_a_key_but_the_open_ones(self):
        """V3, every route that the server lists."""
        for method, path in self.routes():
            with self.subTest(method=method, path=path):
                status = self.send(method, path, "Content-Type: application/json", body=b'{"prompt": "x"}')[0]
                self.assertEqual(200 if path in OPEN else 401, status)

    def test_spellings_of_a_path_do_not_get_around_the_key(self):
        for path in ("//v1/models", "/v1//models", "/V1/models", "/v1/models/", "/health/../v1/models", "/v1/./models",
                     "/v1%2fmodels", "/%761/models", "/health%2f..%2fv1/models", "/v1/models;x=/health"):
            with self.subTest(path):
                status, _, body = self.send("GET", path)
                self.assertIn(status, (400, 401, 404))
                self.assertNotIn(b"max_model_len", body)

    def test_no_method_gets_around_the_key(self):
        for method in ("HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE"):
            with self.subTest(method):
                status, _, body = self.send(method, "/v1/models", "Origin: http://evil.example",
                                            "Access-Control-Request-Method: GET")
                self.assertIn(status, (204, 401, 404, 405) if method == "OPTIONS" else (401, 405, 501))
                self.assertNotIn(b"max_model_len", body)

    def test_a_page_of_another_origin_is_not_let_in(self):
        """V3: OPTIONS and CORS open nothing."""
        _, headers, _ = self.send("OPTIONS", "/v1/chat/completions", "Origin: http://evil.example",
                                  "Access-Control-Request-Method: POST")
        self.assertNotIn(b"access-control-allow", headers.lower())
        _, headers, _ = self.send("GET", "/health", "Origin: http://evil.example")
        self.assertNotIn(b"access-control-allow", headers.lower())

    def test_administration_needs_the_administrator_s_key(self):
        for method, path in self.routes():
            if path in ADMINISTRATION:
                with self.subTest(path):
                    self.assertEqual(403, self.send(method, path, f"Authorization: Bearer {KEY}")[0])
                    self.assertEqual(200, self.send(method, path, f"Authorization: Bearer {ADMIN}")[0])

    def test_an_error_does_not_repeat_the_key_that_was_sent(self):
        wrong = "sk-a-key-with-a-typing-error"
        _, headers, body = self.get_models(f"Bearer {wrong}")
        self.assertNotIn(wrong.encode(), headers + body)
        self.assertNotIn(wrong, self.server.log_text())

    def test_a_key_in_a_query_does_not_reach_the_log(self):
        self.send("GET", f"/v1/models?api_key={KEY}")
        self.server.wait_until(lambda: re.search(r"GET /v1/models", self.server.log_text()))
        self.assertNotIn(KEY, self.server.log_text())


class AccessForAllowedOrigins(ServerTest):
    options = ("--api-key", KEY, "--allowed-origins", "https://app.example")

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.options)

    def tearDown(self):
        pass

    def test_a_preflight_from_the_allowed_origin_is_answered_and_the_key_still_asked_for(self):
        origin = {"Origin": "https://app.example"}
        answer = self.server.request("OPTIONS", "/v1/models", headers={
            **origin, "Access-Control-Request-Method": "GET"})
        self.assertEqual("https://app.example", answer.headers["Access-Control-Allow-Origin"])
        self.assertIn("Authorization", answer.headers["Access-Control-Allow-Headers"])
        refused = self.server.get("/v1/models", headers=origin)
        self.assertEqual(401, refused.status)
        self.assertEqual("https://app.example", refused.headers["Access-Control-Allow-Origin"])

    def test_another_origin_is_told_nothing(self):
        for origin in ("https://app.example.evil.example", "http://app.example", "null"):
            with self.subTest(origin):
                answer = self.server.request("OPTIONS", "/v1/models", headers={
                    "Origin": origin, "Access-Control-Request-Method": "GET"})
                self.assertNotIn("Access-Control-Allow-Origin", answer.headers)


if __name__ == "__main__":
    main()
