"""Makes a Python environment of the client tests: make_environment.py FOLDER [REQUIREMENTS].

A virtual environment with what REQUIREMENTS (requirements.txt) pins. Does nothing when FOLDER has one with the same
requirements; fails when a package cannot be installed.
"""

import pathlib
import subprocess
import sys


def main():
    folder = pathlib.Path(sys.argv[1])
    wanted = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(__file__).with_name("requirements.txt")
    installed = folder / "requirements.txt"
    if installed.exists() and installed.read_text() == wanted.read_text():
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                    "--no-deps", "-r", wanted], check=True)
    installed.write_text(wanted.read_text())


if __name__ == "__main__":
    main()
