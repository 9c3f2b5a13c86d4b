"""Interleaved timing: A, B, A, B ... in one process, so that both see the same machine."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable


@dataclasses.dataclass
class Row:
    """One line of the table; `aim` says what the ratio of ours to against should be."""

    bench: str
    what: str
    unit: str
    ours: float
    against: float | None = None
    aim: str = "report"
    met: bool | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.ours / self.against if self.against else None


def wall(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def cpu(call: Callable[[], object]) -> float:
    """CPU seconds of the calling thread."""
    start = time.thread_time()
    call()
    return time.thread_time() - start


def interleave(ours, against, rounds: int, clock=wall, settle=lambda: None) -> tuple[float, float]:
    """Medians of clock(ours) and clock(against), run in turn; settle() is untimed."""
    clock(ours), settle(), clock(against), settle()
    times = [], []
    for _ in range(rounds):
        for side, call in enumerate((ours, against)):
            times[side].append(clock(call))
            settle()
    return statistics.median(times[0]), statistics.median(times[1])


def percentile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def table(rows: list[Row]) -> str:
    head = ("bench", "what", "ours", "against", "ratio", "aim", "")
    lines = [head]
    for row in rows:
        against = "" if row.against is None else f"{row.against:.4g} {row.unit}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
        verdict = {True: "met", False: "MISSED", None: ""}[row.met]
        lines.append(
            (row.bench, row.what, f"{row.ours:.4g} {row.unit}", against, ratio, row.aim, verdict)
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    text.insert(1, "-" * (sum(widths) + 2 * len(widths) - 2))
    notes = [f"{row.bench}: {row.note}" for row in rows if row.note]
    return "\n".join(text + ([""] + notes if notes else []))
