"""Draws loss curves as an SVG, with nothing but strings."""

from __future__ import annotations

import pathlib

WIDTH, HEIGHT, MARGIN = 640, 360, 48
COLORS = ("#64748b", "#2563eb", "#d97706", "#059669")


def write_svg(path: pathlib.Path, curves: dict[str, list[float]]) -> None:
    """One polyline per name; x: epochs from 1, y: loss from 0."""
    top = max(max(losses) for losses in curves.values()) or 1.0
    epochs = max(len(losses) for losses in curves.values())

    def point(epoch: int, loss: float) -> str:
        x = MARGIN + (WIDTH - 2 * MARGIN) * (epoch / max(1, epochs - 1))
        y = HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (loss / top)
        return f"{x:.1f},{y:.1f}"

    bottom, right = HEIGHT - MARGIN, WIDTH - MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<path d="M{MARGIN},{MARGIN} V{bottom} H{right}" stroke="#94a3b8" fill="none"/>',
        _text(WIDTH // 2, HEIGHT - 14, f"epoch (1 to {epochs})", "middle"),
        _text(MARGIN - 6, MARGIN + 4, f"{top:.2f}", "end"),
        _text(MARGIN - 6, bottom + 4, "0", "end"),
        _text(MARGIN, MARGIN - 16, "loss", "start"),
    ]
    for index, (name, losses) in enumerate(curves.items()):
        color = COLORS[index % len(COLORS)]
        points = " ".join(point(epoch, loss) for epoch, loss in enumerate(losses))
        dash = ' stroke-dasharray="6 4"' if index else ""
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"{dash}/>'
        )
        parts.append(_text(right, MARGIN + 18 * index, name, "end", color))
    parts.append("</svg>")
    path.write_text("\n".join(parts) + "\n")


def _text(x: int, y: int, text: str, anchor: str, color: str = "#334155") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{color}">{text}</text>'
