"""Builds an engine from a checkout of its sources, outside the checkout."""

import os
import pathlib
import shutil

from peers.base import NotMeasured, run

BUILD_SECONDS = 4 * 3600
NEWEST_CLANG, OLDEST_CLANG = 30, 16


def clang():
    """(C compiler, C++ compiler), the newest clang there is; none if there is none of at least version 16 by its name."""
    for name in [f"-{version}" for version in range(NEWEST_CLANG, OLDEST_CLANG - 1, -1)] + [""]:
        c, cxx = shutil.which("clang" + name), shutil.which("clang++" + name)
        if c and cxx:
            return c, cxx
    return None


def programs_in(folder, names):
    """The folder, or its bin, that holds all the programs; nothing if none does."""
    for place in (pathlib.Path(folder), pathlib.Path(folder) / "bin"):
        if all(os.access(place / name, os.X_OK) and (place / name).is_file() for name in names):
            return place
    return None


def configure_command(source, build, options, compiler=None):
    """compiler: (C compiler, C++ compiler); CMake's own choice without."""
    command = ["cmake", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release", *options]
    if shutil.which("ninja"):
        command += ["-G", "Ninja"]
    if compiler:
        command += [f"-DCMAKE_C_COMPILER={compiler[0]}", f"-DCMAKE_CXX_COMPILER={compiler[1]}"]
    return [str(word) for word in command]


def build(source, folder, options, targets, log, compiler=None):
    """The folder with the targets, brought up to date; the first time takes minutes. NotMeasured if it does not build."""
    if not (pathlib.Path(source) / "CMakeLists.txt").is_file():
        raise NotMeasured(f"{source} holds neither {' and '.join(targets)} nor a CMakeLists.txt: give a checkout, or a folder "
                          "with the programs")
    folder.mkdir(parents=True, exist_ok=True)
    run(configure_command(source, folder, options, compiler), log=log, seconds=BUILD_SECONDS)
    run(["cmake", "--build", folder, "--parallel", os.cpu_count() or 1, "--target", *targets], log=log, seconds=BUILD_SECONDS)
    found = programs_in(folder, targets)
    if not found:
        raise NotMeasured(f"{folder} was built, but holds no {' and '.join(targets)}; see {log}")
    return found
