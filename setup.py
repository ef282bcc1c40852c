"""Adds the one step that pyproject.toml can't state: the sample bank, compressed, goes into the package."""

import lzma
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SAMPLE = Path("logs", "sample")
PACKED = Path("rbank_es", "cli", "shared", "sample.jsonl.xz")


class BuildWithSample(build_py):
    """The build of the package's files; a checkout (an editable install) has the sample itself, and packs nothing."""

    def run(self) -> None:
        """Copy the package's files, then pack the log of the sample bank, which is one segment."""
        super().run()
        if not self.editable_mode:
            [segment] = SAMPLE.glob("*.jsonl")
            packed = Path(self.build_lib, PACKED)
            packed.write_bytes(lzma.compress(segment.read_bytes(), preset=9 | lzma.PRESET_EXTREME))


setup(cmdclass={"build_py": BuildWithSample})
