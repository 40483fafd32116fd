"""What ansible-test runs to put pip into an empty virtual environment.

ansible-test downloads a bootstrap script from a host of its own and runs what it finds in its
cache instead, if there is something (it says so when the download fails). This one takes the pip
that comes with the interpreter and the packages from the package index, so that no other host is
needed.
"""

from __future__ import annotations

import subprocess
import sys

SWITCHES = {"--no-setuptools", "--no-wheel"}  # of the script that this one stands for


def main() -> int:
    subprocess.run([sys.executable, "-m", "ensurepip", "--upgrade"], check=True, stdout=subprocess.DEVNULL)
    arguments = [argument for argument in sys.argv[1:] if argument not in SWITCHES]
    return subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--quiet", *arguments], check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
