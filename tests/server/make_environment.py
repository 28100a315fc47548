"""Makes the Python environment of the client tests: make_environment.py FOLDER.

A virtual environment with what requirements.txt pins. Does nothing when FOLDER has one with the same
requirements; fails when a package cannot be installed.
"""

import pathlib
import subprocess
import sys

WANTED = pathlib.Path(__file__).with_name("requirements.txt")


def main():
    folder = pathlib.Path(sys.argv[1])
    installed = folder / "requirements.txt"
    if installed.exists() and installed.read_text() == WANTED.read_text():
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                    "--no-deps", "-r", WANTED], check=True)
    installed.write_text(WANTED.read_text())


if __name__ == "__main__":
    main()
