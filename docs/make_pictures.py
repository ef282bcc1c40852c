"""Make the pictures of the page from the sample, with Chromium: `python docs/make_pictures.py` in the repository."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HOME))

from rbank_es.bank import Bank  # noqa: E402 (after the path of the repository)
from rbank_es.dashboard import write_page  # noqa: E402
from tests.dashboard.conftest import Chromium, Tab  # noqa: E402

PICTURES = {"dashboard.png": ("#/run/lights-08-6e9adf73-1", 1100, 840)}
"""Each picture's file in `docs/`: the page's address, and the size of the window in pixels."""


def main() -> None:
    """Write the pictures, each of the window only."""
    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "sample.html"
        with Bank.open(HOME / "logs" / "sample") as bank, bank.as_of() as view:
            write_page(bank, view, page)
        browser = Chromium(binary, Path(folder) / "profile")
        try:
            for name, (address, width, height) in PICTURES.items():
                _picture(Tab(browser), page, address, (width, height), HOME / "docs" / name)
        finally:
            browser.close()


def _picture(tab: Tab, page: Path, address: str, size: tuple[int, int], path: Path) -> None:
    tab.open(page, width=size[0])
    tab.send("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False)
    tab.eval(f"location.hash = {address!r}")
    tab.settle()
    tab.screenshot(path, whole=False)
    print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
