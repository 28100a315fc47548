"""What a figure is from: the machine, the commit, the processors that an engine may use."""

import os
import pathlib
import platform
import shutil
import subprocess

FLAGS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8")


def lscpu_fields(text):
    """{"Model name": ...} of what lscpu prints."""
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines()) if value}


def machine():
    try:
        text = subprocess.run(["lscpu"], capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}).stdout
    except OSError:
        text = ""
    fields = lscpu_fields(text)
    flags = fields.get("Flags", "").split()
    return {
        "model": fields.get("Model name") or platform.processor() or platform.machine(),
        "cpus": os.cpu_count(),
        "threads_per_core": fields.get("Thread(s) per core"),
        "flags": [flag for flag in FLAGS if flag in flags],
        "kernel": platform.release(),
        "load_average": os.getloadavg(),
    }


def commit(folder=None):
    """The commit of a checkout, ours without a folder; None where git knows none."""
    folder = pathlib.Path(folder) if folder else pathlib.Path(__file__).resolve().parent

    def git(*arguments):
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    if not shutil.which("git"):
        return None
    head = git("rev-parse", "--short=12", "HEAD")
    return head + ("+changes" if git("status", "--porcelain", "--untracked-files=no") else "") if head else None


def pinned(threads):
    """The words before a command that keep it on the first `threads` processors; none if it has no more anyway."""
    processors = sorted(os.sched_getaffinity(0))
    if threads >= len(processors) or not shutil.which("taskset"):
        return []
    return ["taskset", "-c", ",".join(map(str, processors[:threads]))]
