"""Draw README's picture of a terminal: the real output of two commands, in light and in dark.

    python docs/images/terminal.py

Run it in the root of the repository. Needs rich, which typer brings.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
SHOWN = (
    ("convert", "examples/claude-code", "-o", "sessions.jsonl", "--rate", "outcomes", "-q"),
    ("show", "sessions.jsonl", "-n", "3"),
)
ANSI = (
    (28, 32, 36),
    (178, 42, 42),
    (26, 127, 55),
    (154, 103, 0),
    (27, 108, 168),
    (130, 80, 223),
    (9, 105, 117),
    (90, 97, 104),
)
THEMES = {
    "light": TerminalTheme((246, 247, 248), (28, 32, 36), list(ANSI), list(ANSI)),
    "dark": TerminalTheme((29, 33, 37), (230, 232, 234), list(ANSI), list(ANSI)),
}
SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>karl-fast reads the sessions of an agent, and shows which were good and why</title>
<style>
.{unique_id}-matrix {{ white-space: pre; font: {char_height}px ui-monospace, Menlo, Consolas, monospace; }}
{styles}
</style>
<defs>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def main() -> None:
    """Run the commands, and write what they print as two SVG files."""
    console = Console(width=80, record=True, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "examples").symlink_to(ROOT / "examples")
        for words in SHOWN:
            console.print(Text(f"$ karl-fast {' '.join(words)}", style="bold"))
            done = subprocess.run(
                [sys.executable, "-m", "karl_fast", *words],
                cwd=folder,
                env=os.environ | {"COLUMNS": "80"},
                capture_output=True,
                text=True,
                check=True,
            )
            console.print(Text.from_ansi(done.stderr + done.stdout))
    for name, theme in THEMES.items():
        text = console.export_svg(title="karl-fast", theme=theme, code_format=SVG, unique_id="t", clear=False)
        Path(__file__).with_name(f"terminal-{name}.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
