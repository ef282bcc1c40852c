"""What holds for all tests: how hard laws are tried. Machines are busy at times, so no example has its own deadline."""

from __future__ import annotations

from hypothesis import settings

from tests.effort import examples

settings.register_profile("rbank-es", max_examples=examples(100), deadline=None, print_blob=True)
settings.load_profile("rbank-es")
