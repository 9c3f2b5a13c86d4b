"""Calls that are not used here, each with what to use instead."""

from __future__ import annotations

import dataclasses
import re

from tree import Problem, Tree, code_lines


@dataclasses.dataclass(frozen=True)
class Ban:
    pattern: str
    instead: str
    folders: tuple[str, ...] = ("runtime", "plugins", "server", "client", "proto")
    allowed: tuple[str, ...] = ()  # paths, or starts of paths, each with its reason beside it


CPP_BANS = (
    Ban(r"\.detach\(\)", "an owner that joins the thread"),
    Ban(r"\b(?:sprintf|strcpy|strcat|strtok|gets)\s*\(", "absl::StrFormat, std::string, snprintf"),
    Ban(r"\b(?:system|popen)\s*\(", "uv_spawn or posix_spawn with an argument list"),
    Ban(r"\b(?:std::)?s?rand\s*\(", "a generator handed in, so that tests can repeat it"),
    Ban(r"\bstd::regex\b", "absl's string functions: std::regex recurses on hostile input"),
    Ban(r"\busing namespace (?!std::\w*literals)", "the names themselves"),
    Ban(r"^\s*#\s*pragma\s+once", "an include guard named after the path"),
    Ban(
        r"\b(?:absl::Mutex|absl::MutexLock|absl::Notification)\b",
        "std::mutex: Debian's Abseil hides races from ThreadSanitizer",
        folders=("runtime", "plugins"),
    ),
    Ban(
        r"\bstd::(?:cout|cerr|clog)\b|(?<![:\w])(?:std::)?f?printf\s*\(",
        "spdlog, or a Status",
        folders=("runtime", "plugins", "server"),
        allowed=(
            "server/main.cc",  # flags and start errors go to the terminal
            "server/daemon/config.cc",
            "server/daemon/daemon.cc",
            "server/compiler/",  # a worker has no log of its own: its stderr is the daemon's
        ),
    ),
    Ban(r"(?<![\w.>:])assert\s*\(", "a Status for the caller's mistake, CHECK for our own"),
    Ban(
        r"\b(?:std::)?getenv\s*\(",
        "an option in the struct that the composition root fills",
        folders=("runtime", "plugins"),
        allowed=("plugins/pjrt/fingerprint.cc",),  # what XLA itself reads is part of the cache key
    ),
    Ban(
        r"\bsleep_for\b|\bsleep_until\b|(?<![\w.])u?sleep\s*\(",
        "a wait for the thing itself (condition, futex, timer)",
        allowed=(
            "client/ring/starter.cc",  # flock has no wait with a limit
            "client/ring/connect.cc",  # between two tries
            "server/daemon/lock_file.cc",  # flock has no wait with a limit
            "plugins/fake/",  # a script's latency
        ),
    ),
    Ban(
        r"(?<!\w)throw\b",
        "absl::Status; exceptions start at one macro in the torch shim",
        folders=(
            "runtime",
            "plugins",
            "server",
            "proto",
            "client/ring",
            "client/cli",
            "client/cpp",
        ),
    ),
    Ban(
        r"(?<![\w.>:])(?:std::)?(?:abort|exit|_exit|quick_exit)\s*\(",
        "a Status: nothing a client sends may end the daemon",
        folders=("runtime", "plugins", "server", "client/ring"),
        allowed=(
            "server/main.cc",  # the end of the program
            "server/daemon/",  # the hard exit after a drain that did not end
            "server/compiler/worker",  # a worker's own end
            "client/ring/starter.cc",  # between fork and exec
            "plugins/fake/",  # a scripted crash
            "plugins/fake/",  # a script's compiler crash
        ),
    ),
)
PYTHON_BANS = (
    Ban(
        r"\bos\.system\s*\(|shell=True", "subprocess.run with a list", ("client", "tests", "deploy")
    ),
    Ban(
        r"(?<![\w.])print\s*\(",
        "warnings or logging",
        ("client/torch/torch_neuronx",),
        allowed=(
            "client/torch/torch_neuronx/_loader.py",  # at exit, when nothing else speaks any more
        ),
    ),
    Ban(r"\beval\s*\(|(?<![\w.])exec\s*\(", "a function", ("client/torch/torch_neuronx",)),
)
TEST_BANS = (
    Ban(
        r"\btime\.sleep\s*\(\s*(?:[1-9]|0\.[5-9])|\bsleep_for\s*\(\s*std::chrono::seconds",
        "a wait for the thing itself, with a limit",
        ("tests",),
        allowed=(
            "tests/bench/",  # an idle daemon is measured by waiting
        ),
    ),
)


def _scan(files: Tree, bans: tuple[Ban, ...], lines_of) -> list[Problem]:
    problems = []
    for path, text in files.items():
        lines = lines_of(text)
        for ban in bans:
            inside = any(path.startswith(folder + "/") for folder in ban.folders)
            if not inside or path.startswith(ban.allowed or ("\0",)):
                continue
            problems += [
                Problem(path, number, f"banned: {match.group(0).strip()!r}; use {ban.instead}")
                for number, line in lines
                if (match := re.search(ban.pattern, line))
            ]
    return problems


def python_lines(text: str) -> list[tuple[int, str]]:
    return [(n, line.split("#")[0]) for n, line in enumerate(text.splitlines(), 1)]


def check(tree: Tree) -> list[Problem]:
    return (
        _scan(tree.cpp(), CPP_BANS, code_lines)
        + _scan(tree.under(suffixes=(".py",)).without("tests/tidy"), PYTHON_BANS, python_lines)
        + _scan(
            tree.under("tests", suffixes=(".py", ".cc", ".h")).without("tests/tidy"),
            TEST_BANS,
            python_lines,
        )
    )
