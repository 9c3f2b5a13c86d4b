"""Runs a command into a log file; at its time limit the whole process group is ended."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time


def run(command, log: pathlib.Path, timeout_s: float, env=None, cwd=None, title: str = "") -> int:
    """The exit status; 124 when the limit ended it. On a terminal a line counts the seconds."""
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    with open(log, "ab") as out:
        out.write(("$ " + " ".join(map(str, command)) + "\n").encode())
        out.flush()
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            start_new_session=True,
        )
        while True:
            try:
                status = process.wait(timeout=1)
                break
            except subprocess.TimeoutExpired:
                elapsed = time.monotonic() - start
                if sys.stdout.isatty():
                    print(f"\r\033[K  {title} ... {elapsed:.0f}s {_last(log)}", end="", flush=True)
                if elapsed > timeout_s:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    out.write(f"\nended after {timeout_s:.0f} s\n".encode())
                    status = 124
                    break
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
    if sys.stdout.isatty():
        print("\r\033[K", end="")
    return status


def _last(log: pathlib.Path) -> str:
    lines = tail(log, 1)
    return lines[0][:60] if lines else ""


def tail(log: pathlib.Path, lines: int) -> list[str]:
    with open(log, "rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - 64 * 1024))
        return file.read().decode(errors="replace").splitlines()[-lines:]
