"""A progress bar in a few lines: redraws itself on a terminal, prints every quarter elsewhere."""

from __future__ import annotations

import sys
import time

WIDTH = 24


class Bar:
    """`with Bar(name, total) as bar: bar.advance(text)`."""

    def __init__(self, name: str, total: int):
        self.name, self.total, self.done, self.text = name, total, 0, ""
        self.start = time.monotonic()
        self.live = sys.stdout.isatty()

    def __enter__(self) -> Bar:
        self._draw()
        return self

    def __exit__(self, *error) -> None:
        if self.live:
            print()

    def advance(self, text: str) -> None:
        quarter_before = 4 * self.done // self.total
        self.done += 1
        self.text = text
        if self.live or 4 * self.done // self.total > quarter_before:
            self._draw()

    def _draw(self) -> None:
        filled = WIDTH * self.done // self.total
        bar = "#" * filled + "." * (WIDTH - filled)
        line = (
            f"  {self.name:<16} [{bar}] {self.done:>3}/{self.total}"
            f"  {time.monotonic() - self.start:5.1f} s  {self.text}"
        )
        if self.live:
            print(f"\r\033[K{line}", end="", flush=True)
        elif self.done:
            print(line, flush=True)
