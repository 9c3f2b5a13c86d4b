"""./tests/run: runs the parts, then prints a table and one plain line `N passed, N failed`."""

from __future__ import annotations

import argparse
import sys
import time

import parts
from counts import Counts, failure


def parse(arguments):
    parser = argparse.ArgumentParser(prog="tests/run", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        choices=sorted(parts.PARTS),
        metavar="PART",
        help=f"run this part only (repeatable): {', '.join(parts.PARTS)}",
    )
    parser.add_argument("-k", dest="keyword", help="run only tests whose name matches")
    parser.add_argument(
        "--fuzz-seconds",
        type=int,
        help=f"time for each fuzz target (default: {parts.FUZZ_SECONDS} for "
        f"{' and '.join(parts.FIRST_FUZZ_TARGETS)}, {parts.OTHER_FUZZ_SECONDS} for the others)",
    )
    return parser.parse_args(arguments)


def run_part(name: str, options) -> Counts:
    context = parts.Context(name, options.keyword, options.fuzz_seconds)
    try:
        counts = parts.PARTS[name](context)
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {error}")
        counts = failure(f"{name}: {error}")
    if counts == Counts() and not options.keyword:
        counts = failure(f"{name}: no test was run")
    return counts


def main(arguments) -> int:
    options = parse(arguments)
    rows = []
    for name in options.only or parts.DEFAULT:
        start = time.monotonic()
        counts = run_part(name, options)
        rows.append((name, counts, time.monotonic() - start))
        print(
            f"  {name:<12} {counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped"
            f"  ({rows[-1][2]:.0f} s)",
            flush=True,
        )
    total = sum((counts for _, counts, _ in rows), Counts())
    print(f"\n{'part':<12} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}")
    for name, counts, seconds in rows:
        print(
            f"{name:<12} {counts.passed:>7} {counts.failed:>7} {counts.skipped:>8} {seconds:>8.0f}"
        )
    if total.failures:
        print("\nfailed:")
        for failed in total.failures[:100]:
            print(f"  {failed}")
    print(f"\n{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
