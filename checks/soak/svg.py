"""Pieces of drawings. Words may be anything: they are escaped here."""

import html
from collections.abc import Sequence

Point = tuple[float, float]


def document(width: int, height: int, font_px: int, parts: Sequence[str]) -> str:
    """A whole file: the parts on white."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="{font_px}">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>", ""])


def text(x: float, y: float, words: str, **attributes: str | int) -> str:
    """Words at a place; attributes are SVG's, with underscores for hyphens."""
    more = "".join(f' {name.replace("_", "-")}="{html.escape(str(value))}"' for name, value in attributes.items())
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{html.escape(words, quote=False)}</text>'


def line(begin: Point, end: Point, colour: str) -> str:
    """A straight line."""
    return f'<line x1="{begin[0]:.1f}" y1="{begin[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" stroke="{colour}"/>'


def frame(corner: Point, width: int, height: int, colour: str) -> str:
    """An empty rectangle."""
    return f'<rect x="{corner[0]:.1f}" y="{corner[1]:.1f}" width="{width}" height="{height}" fill="none" stroke="{colour}"/>'


def curve(points: Sequence[Point], colour: str, width: float, radius: float) -> list[str]:
    """Straight lines from point to point, and a dot at each."""
    places = [(f"{x:.1f}", f"{y:.1f}") for x, y in points]
    joined = " ".join(f"{x},{y}" for x, y in places)
    dots = [f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{colour}"/>' for x, y in places]
    return [f'<polyline fill="none" stroke="{colour}" stroke-width="{width}" points="{joined}"/>', *dots]
