"""Make the pictures of the page from the sample, with Chromium: `python docs/make_pictures.py` in the repository."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HOME))

from rbank_es.bank import Bank  # noqa: E402 (after the path of the repository)
from rbank_es.page import write_page  # noqa: E402
from tests.page.conftest import Chromium, Tab  # noqa: E402

PICTURES = {
    "dashboard.png": ("#/run/lights-08-7d2405bc-1", 1100, 780, False),
    "page-overview.png": ("#/", 1000, 800, True),
    "page-then.png": ("#/item/bfd1fd5367a2?at=199", 1000, 620, False),
}
"""Each picture's file in `docs/`: the page's address, the size of the window in pixels, and whether it is dark."""


def main() -> None:
    """Write the pictures, each of the window only."""
    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "sample.html"
        with Bank.open(HOME / "logs" / "sample") as bank, bank.as_of() as view:
            write_page(bank, view, page)
        browser = Chromium(binary, Path(folder) / "profile")
        try:
            for name, (address, width, height, dark) in PICTURES.items():
                tab = Tab(browser)
                tab.open(page, width=width, dark=dark)
                _picture(tab, address, (width, height), HOME / "docs" / name)
        finally:
            browser.close()


def _picture(tab: Tab, address: str, size: tuple[int, int], path: Path) -> None:
    tab.send("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False)
    tab.eval(f"location.hash = {address!r}")
    tab.settle()
    tab.screenshot(path, whole=False)
    print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
