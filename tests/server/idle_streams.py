"""What open streams cost: thousands of idle ones beside busy ones, and a monitor that reads /metrics all the time.

    OCTAVO_PROGRAM=build/release/octavo python3 tests/server/idle_streams.py --idle 2000 --active 64

An idle stream is a request of low priority that waits for the busy ones, since its choices need every place in the batch. Prints the memory
of each, the time to the first token of the busy ones without and with them, and what reading /metrics every 50 ms takes of a core.
"""

import argparse
import asyncio
import json
import pathlib
import resource
import sys
import time

from server import Server
from soak import rss_kib

SCRAPE_SECONDS = 10


def cpu_seconds(pid):
    """Of all its threads, to the nanosecond."""
    tasks = pathlib.Path(f"/proc/{pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9


def head(body):
    data = json.dumps({"stream": True, "ignore_eos": True, **body}).encode()
    return f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


def prompt(index, length):
    return [1000 + (index * 7919 + i * 31) % 40000 for i in range(length)]


async def active(port, index, num_requests, num_tokens):
    """The times to the first token of requests one after another, in seconds."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    seconds = []
    for request in range(num_requests):
        start = time.monotonic()
        writer.write(head({"prompt": prompt(index + 1000 * request, 64), "max_tokens": num_tokens, "priority": 0}))
        await reader.readuntil(b"data: ")
        seconds.append(time.monotonic() - start)
        await reader.readuntil(b"[DONE]\n\n\r\n0\r\n\r\n")
    writer.close()
    return seconds


async def all_active(port, arguments):
    tasks = [active(port, i, arguments.requests, arguments.tokens) for i in range(arguments.active)]
    return sorted(second for seconds in await asyncio.gather(*tasks) for second in seconds)


def show_ttft(what, seconds):
    print(f"time to first token, {what}: p50 {seconds[len(seconds) // 2]:.3f} s, "
          f"p99 {seconds[int(len(seconds) * 0.99)]:.3f} s of {len(seconds)}")


async def open_idle(port, num, num_places):
    """Streams that have nothing to say."""
    streams = []
    for i in range(num):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head({"prompt": prompt(i, 16), "max_tokens": 4, "priority": 10, "n": num_places}))
        streams.append((reader, writer))
        if i % 50 == 49:
            await asyncio.sleep(0)
    return streams


async def hold_a_place(port):
    """A stream that goes on for as long as it is not closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head({"prompt": prompt(7, 8), "max_tokens": 8000, "priority": 0}))
    await reader.readuntil(b"data: ")

    async def drain():
        while await reader.read(65536):
            pass
    return asyncio.create_task(drain()), writer


async def measure(server, arguments):
    pid, port = server.process.pid, server.port
    await all_active(port, arguments)  # warm
    show_ttft(f"{arguments.active} streams and one long one", await all_active_beside_one(port, arguments))
    holder, long_writer = await hold_a_place(port)
    before = rss_kib(pid)
    streams = await open_idle(port, arguments.idle, arguments.active + 1)
    while server.metrics()["vllm:num_requests_waiting"] < arguments.idle:
        await asyncio.sleep(0.1)
    print(f"memory of an idle stream: {(rss_kib(pid) - before) / arguments.idle:.1f} KiB "
          f"({before / 1024:.1f} MiB before, {rss_kib(pid) / 1024:.1f} MiB with {arguments.idle})")
    show_ttft(f"the same beside {arguments.idle} idle ones", await all_active(port, arguments))
    if server.metrics()["vllm:num_requests_waiting"] < arguments.idle:
        raise RuntimeError("an idle stream did not stay idle")
    for _, writer in streams:
        writer.close()
    long_writer.close()
    await holder
    while not server.is_idle():
        await asyncio.sleep(0.1)
    # Connections that stay open between requests.
    kept = [await asyncio.open_connection("127.0.0.1", port) for _ in range(arguments.idle)]
    await scrape(server, pid, len(kept))
    for _, writer in kept:
        writer.close()


async def all_active_beside_one(port, arguments):
    holder, writer = await hold_a_place(port)
    seconds = await all_active(port, arguments)
    writer.close()
    await holder
    return seconds


async def scrape(server, pid, num_connections):
    start = cpu_seconds(pid)
    await asyncio.sleep(SCRAPE_SECONDS)
    idle = cpu_seconds(pid) - start
    start, begin, num = cpu_seconds(pid), time.monotonic(), 0
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    while time.monotonic() - begin < SCRAPE_SECONDS:
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        header = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in header.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.split(b":")[1]))
        num += 1
        await asyncio.sleep(max(0.0, begin + num * 0.05 - time.monotonic()))
    writer.close()
    share = (cpu_seconds(pid) - start - idle) / SCRAPE_SECONDS
    print(f"/metrics {num} times in {SCRAPE_SECONDS} s with {num_connections} connections open: {100 * share:.2f} % of a core "
          f"(the idle server itself: {100 * idle / SCRAPE_SECONDS:.2f} %)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle", type=int, default=2000)
    parser.add_argument("--active", type=int, default=64)
    parser.add_argument("--requests", type=int, default=3, help="of each active stream")
    parser.add_argument("--tokens", type=int, default=16, help="of each of these requests")
    arguments = parser.parse_args()
    num_files = arguments.idle + arguments.active + 256
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < num_files:
        sys.exit(f"{num_files} open files are needed, but the limit is {hard}: ulimit -Hn")
    resource.setrlimit(resource.RLIMIT_NOFILE, (num_files, hard))
    with Server("--disable-log-requests", "--max-num-seqs", arguments.active + 1, "--scheduling-policy", "priority",
                "--max-concurrent-requests", num_files, "--idle-timeout", 600, "--write-timeout", 600) as server:
        asyncio.run(measure(server, arguments))


if __name__ == "__main__":
    main()
