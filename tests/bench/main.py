"""Runs the benchmarks, prints their table, and writes it as JSON."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import sys
import traceback

from daemon import GRAPH_BENCH, Home
from measure import table

NAMES = ("dispatch", "chain", "roundtrip", "graph", "upload", "download", "warm", "idle", "killed")


def bench(name: str):
    """Imported late: torch must see the home's environment first."""
    import eager
    import graph
    import startup

    for module in (eager, graph, startup):
        if hasattr(module, name):
            return getattr(module, name)
    raise KeyError(name)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/bench/run", description=__doc__)
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the rows there")
    parser.add_argument("--only", action="append", choices=NAMES, help="repeatable")
    options = parser.parse_args()
    if "graph" in (options.only or NAMES) and not GRAPH_BENCH.exists():
        parser.error(f"{GRAPH_BENCH} is missing: ./deploy/setup --tests builds it")
    home = Home()
    os.environ.update(home.variables)
    os.environ.pop("NEURON_RT_ADDRESS", None)
    rows, failed = [], []
    try:
        for name in options.only or NAMES:
            print(f"{name} ...", file=sys.stderr, flush=True)
            try:
                rows += bench(name)(home)
            except Exception:
                traceback.print_exc()
                failed.append(name)
    finally:
        home.close()
    print(table(rows))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        answer = {"rows": [{**dataclasses.asdict(r), "ratio": r.ratio} for r in rows]}
        options.json.write_text(json.dumps({**answer, "failed": failed}, indent=1) + "\n")
    if failed:
        print(f"\ndid not run: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
