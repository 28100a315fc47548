"""Pauses what a server does beside answering: all of its threads but the one that serves connections."""

import contextlib
import ctypes
import os
import time

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
LIBC.ptrace.restype = ctypes.c_long


def ptrace(request, thread):
    if LIBC.ptrace(request, thread, None, None) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def other_threads(process):
    return [int(name) for name in os.listdir(f"/proc/{process}/task") if int(name) != process]


@contextlib.contextmanager
def other_threads_paused(process):
    """Only the main thread of `process`, a child of this one, runs inside.

    PermissionError where tracing is forbidden.
    """
    paused = set()
    deadline = time.monotonic() + 10
    # A thread that is not stopped yet may begin others: until no new one is seen.
    while new := [thread for thread in other_threads(process) if thread not in paused]:
        for thread in new:
            with contextlib.suppress(ProcessLookupError):
                ptrace(SEIZE, thread)
                ptrace(INTERRUPT, thread)
                os.waitpid(thread, 0x40000000)  # __WALL
            paused.add(thread)
        if time.monotonic() > deadline:
            raise TimeoutError("the threads cannot be stopped")
    try:
        yield
    finally:
        for thread in paused:
            with contextlib.suppress(ProcessLookupError):
                ptrace(DETACH, thread)
