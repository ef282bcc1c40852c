"""The colours of the page, each for light and for dark. Text reaches a contrast of 4.5, marks of charts reach 3."""

from __future__ import annotations

PALETTE = {
    # name: (light, dark); the light ones are distinct, because charts are repainted by value
    "paper": ("#fdfdfc", "#14171a"),
    "wash": ("#f3f4f2", "#1c2024"),
    "ink": ("#1c2023", "#e6e8ea"),
    "muted": ("#565e66", "#a3acb5"),
    "rule": ("#dcdfdd", "#333a41"),
    "accent": ("#1f5f99", "#7db5ec"),
    "second": ("#7f8890", "#7d8791"),
    "pale": ("#6d96bd", "#47739c"),
    "flag": ("#b3331f", "#ff927d"),
    "sand": ("#a67c2e", "#cfa65a"),
    "plum": ("#84578f", "#c196cc"),
}


def light(name: str) -> str:
    """The colour for light pages, as charts hold it."""
    return PALETTE[name][0]


def repaint() -> dict[str, str]:
    """From each light colour to its dark one, for the page's script."""
    return dict(PALETTE.values())


def declarations(dark: bool) -> str:
    """The colours as CSS custom properties."""
    return " ".join(f"--{name}: {pair[dark]};" for name, pair in PALETTE.items())
