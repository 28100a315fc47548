"""Soak: many connections of every kind against one server for a long time, and what is left afterwards.

    OCTAVO_PROGRAM=build/release/octavo python3 tests/server/soak.py --seconds 1800 --connections 200

Half of the clients behave; the others leave early, read slowly, or send what no server should have to read. At the end the server must
hold no block and no request, its cache must pass the audit, its memory must have been flat since the warm-up, and a SIGTERM under load must
lose no request.
The last line is OK or FAILED; the exit code follows.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import time

from server import Server

MALFORMED = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999\r\n\r\n",
]
BAD_BODIES = [
    b"", b"{", b"[]", b'{"prompt": []}', b'{"prompt": "x", "n": -1}', b'{"prompt": "x", "temperature": 1e999}',
    b'{"prompt": ' + b"[" * 500 + b"]" * 500 + b"}", b'{"prompt": "x", "logit_bias": {"-1": 5}}',
    b'{"prompt": "x", "structured_outputs": {"grammar": "root ::= root"}}', b"\xff\xfe{}",
]
MAX_GROWTH_KIB = 8 << 10


class Soak:
    def __init__(self, server, seed):
        self.server = server
        self.random = random.Random(seed)
        self.counts = {}
        self.stopping = False
        self.problems = []

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def body(self, **fields):
        draw = self.random
        prompt = [1000 + draw.randrange(3) * 100 + i for i in range(draw.choice([1, 5, 17, 33, 120, 400]))]
        body = {"prompt": prompt, "max_tokens": draw.choice([1, 3, 10, 40]), "ignore_eos": True,
                "seed": draw.randrange(100), "n": draw.choice([1, 1, 1, 3]), **fields}
        return json.dumps(body).encode()

    @staticmethod
    def head(body, path="/v1/completions"):
        return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body

    async def open(self):
        return await asyncio.open_connection("127.0.0.1", self.server.port)

    async def whole(self, stream, **fields):
        reader, writer = await self.open()
        writer.write(self.head(self.body(stream=stream, **fields)))
        data = await reader.read()
        writer.close()
        status = data[9:12]
        self.count(f"{'stream' if stream else 'whole'} {status.decode()}")
        if status not in (b"200", b"429", b"503"):  # 429: too many requests, 503: too many connections
            self.problems.append(f"a good request got {data[:100]!r}")
        if status == b"200" and (b"[DONE]" if stream else b'"usage"') not in data:
            self.problems.append(f"an accepted request was cut: {data[-200:]!r}")

    async def leaving(self):
        reader, writer = await self.open()
        writer.write(self.head(self.body(stream=self.random.random() < 0.5, max_tokens=400)))
        await asyncio.sleep(self.random.random() * 0.5)
        if self.random.random() < 0.5:
            writer.transport.abort()
        else:
            writer.close()
        self.count("left")

    async def slow(self):
        reader, writer = await self.open()
        writer.write(self.head(self.body(stream=True, max_tokens=60)))
        for _ in range(40):
            if not await reader.read(64):
                break
            await asyncio.sleep(0.05)
        writer.close()
        self.count("slow")

    async def malformed(self):
        reader, writer = await self.open()
        if self.random.random() < 0.5:
            writer.write(self.random.choice(MALFORMED))
        else:
            writer.write(self.head(self.random.choice(BAD_BODIES)))
        try:
            data = await asyncio.wait_for(reader.read(), 90)
            if data[9:12] not in (b"400", b"413", b"431", b"") and not data.startswith(b"HTTP/1.1 4"):
                self.problems.append(f"a malformed request got {data[:100]!r}")
        except asyncio.TimeoutError:
            self.problems.append("a malformed request got no answer in 90 s")
        writer.close()
        self.count("malformed")

    async def try_whole(self):
        try:
            await self.whole(stream=self.random.random() < 0.5)
        except OSError as error:
            self.problems.append(f"a good request: {error!r}")

    async def client(self):
        while not self.stopping:
            draw = self.random.random()
            if draw < 0.5:
                await self.try_whole()
                continue
            try:
                if draw < 0.75:
                    await self.leaving()
                elif draw < 0.85:
                    await self.slow()
                else:
                    await self.malformed()
            except OSError as error:
                self.count(f"connection: {type(error).__name__}")

    async def run(self, seconds, connections):
        clients = [asyncio.create_task(self.client()) for _ in range(connections)]
        samples = []
        start = time.monotonic()
        while time.monotonic() - start < seconds:
            await asyncio.sleep(min(5.0, seconds / 10))
            samples.append((time.monotonic() - start, rss_kib(self.server.process.pid)))
            print(f"{samples[-1][0]:7.0f} s  {samples[-1][1] / 1024:8.1f} MiB  {sum(self.counts.values())} requests", flush=True)
        self.stopping = True
        await asyncio.gather(*clients)
        return samples


def rss_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


async def sigterm_under_load(server, num_requests):
    """Requests that the server holds when it is told to end: all of them are answered, or are among the problems."""
    soak = Soak(server, 1)
    tasks = [asyncio.create_task(soak.whole(stream=i % 2 == 0, max_tokens=60)) for i in range(num_requests)]
    while not any(task.done() for task in tasks):
        if (await asyncio.to_thread(server.get, "/server_info")).json()["num_generations"] == num_requests:
            break
    server.process.terminate()
    for error in await asyncio.gather(*tasks, return_exceptions=True):
        if error:
            soak.problems.append(f"a request under SIGTERM: {error!r}")
    num_whole = sum(num for what, num in soak.counts.items() if what.endswith(" 200"))
    if num_whole != num_requests:
        soak.problems.append(f"{num_whole} of {num_requests} requests under SIGTERM were answered")
    return soak


def growth_kib(warm):
    """Of the memory, from the first third of the samples after the warm-up to the last: medians, which no single request moves."""
    third = max(1, len(warm) // 3)
    return statistics.median(warm[-third:]) - statistics.median(warm[:third])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    # A pool that is filled as blocks are first used would look like a leak.
    with Server("--disable-log-requests", "--write-timeout", "10", "--kv-cache-memory-bytes", 64 << 20,
                "--populate-kv-cache") as server:
        soak = Soak(server, arguments.seed)
        samples = asyncio.run(soak.run(arguments.seconds, arguments.connections))
        problems = list(soak.problems)
        server.wait_until(lambda: server.metrics()["vllm:num_requests_running"] + server.metrics()["vllm:num_requests_waiting"] == 0, 60)
        used = server.kv_blocks()["used"]
        if used:
            problems.append(f"{used} blocks are used after the drain")
        warm = [kib for second, kib in samples if second >= arguments.seconds * 0.3]
        growth = growth_kib(warm)
        print(f"memory after the warm-up: {min(warm) / 1024:.1f} to {max(warm) / 1024:.1f} MiB, growth {growth / 1024:.1f} MiB")
        if growth > MAX_GROWTH_KIB:
            problems.append(f"the memory grew by {growth / 1024:.1f} MiB after the warm-up, more than {MAX_GROWTH_KIB / 1024:.0f}")
        audit = server.post("/check_integrity", "")
        print(f"audit of the cache: {audit.status} {audit.body.decode()}")
        if audit.status != 200:
            problems.append("the audit of the cache failed")
        print(json.dumps(soak.counts, sort_keys=True))
        last = asyncio.run(sigterm_under_load(server, 64))
        code = server.process.wait(90)
        print(f"SIGTERM under load: {json.dumps(last.counts)}, exit code {code}")
        problems += last.problems + ([f"exit code {code}"] if code else [])
    for problem in sorted(set(problems))[:10]:
        print("problem:", problem)
    print("FAILED" if problems else "OK")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
