"""Draw README's picture of a page of `report`: the top of the page of the example log, in light and in dark.

    python docs/images/report_page.py

Run it in the root of the repository. Needs playwright, Pillow, and the Chromium of the system.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parent
WIDTH, HEIGHT, SCALE, COLOURS = 1180, 590, 1.5, 64


def main() -> None:
    """Write both pictures."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page = Path(folder) / "page.html"
        command = [sys.executable, "-m", "karl_fast", "report", "examples/agent-log.jsonl", "-o", str(page), "-q"]
        subprocess.run(command, check=True)
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            tab = browser.new_page(
                viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme, device_scale_factor=SCALE
            )
            tab.goto(page.as_uri())
            picture = Image.open(io.BytesIO(tab.screenshot())).convert("RGB").quantize(COLOURS)
            picture.save(HERE / f"report-{scheme}.png", optimize=True)


if __name__ == "__main__":
    main()
