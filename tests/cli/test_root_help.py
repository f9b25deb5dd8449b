"""`karl-fast --help`, and the short form of `--help` of each command."""

from __future__ import annotations

import subprocess
import sys

from karl_fast.cli.app import COMMANDS
from tests.cli.run import karl


def test_the_help_names_all_commands_and_imports_none() -> None:
    program = (
        "import sys; sys.argv = ['karl-fast', '--help']\n"
        "from karl_fast.cli import main\n"
        "try:\n    main()\n"
        "finally:\n    print([name for name in sys.modules if 'commands.' in name or name == 'numpy'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.endswith("[]\n")
    assert [line.split()[0] for line in done.stdout.partition("Commands:\n")[2].splitlines() if line[2:3].strip()] == [
        *COMMANDS
    ]


def test_h_is_help_of_every_command() -> None:
    assert karl("-h").stdout == karl("--help").stdout != ""
    for command in COMMANDS:
        short, long = karl(command, "-h"), karl(command, "--help")
        assert (short.returncode, short.stdout) == (0, long.stdout), command
