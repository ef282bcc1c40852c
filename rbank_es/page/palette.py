"""The colours of the pages, light and dark: WCAG AA on their grounds, which a test computes."""

from __future__ import annotations

PALETTE = {
    # name: (light, dark)
    "paper": ("#fdfdfc", "#14171a"),
    "wash": ("#f3f4f2", "#1c2024"),
    "ink": ("#1c2023", "#e6e8ea"),
    "muted": ("#565e66", "#a3acb5"),
    "rule": ("#dcdfdd", "#333a41"),
    "accent": ("#1f5f99", "#7db5ec"),
    "second": ("#7f8890", "#7d8791"),
    "pale": ("#6d96bd", "#47739c"),
    "flag": ("#b3331f", "#ff927d"),
    "sand": ("#8a5f14", "#d9b36c"),
    "badwash": ("#fbeeeb", "#2c1d1a"),
    "okwash": ("#eef4fa", "#182430"),
    "past": ("#fbf5e4", "#2a2416"),
}


def declarations(dark: bool) -> str:
    """Return the colours as CSS custom properties."""
    return " ".join(f"--{name}: {pair[dark]};" for name, pair in PALETTE.items())


def colour_rules() -> str:
    """Return the CSS that sets the colours in both themes."""
    light, dark = (f":root {{ {declarations(dark)} }}" for dark in (False, True))
    return f"{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}\n"
