"""Limits stand in limits.h, each with its reason."""

from __future__ import annotations

import re

from tree import Problem, Tree, code_lines

# The Google name of a constant that bounds something.
LIMIT = re.compile(r"\bconstexpr\s+[\w:<>]+\s+(k\w+(?:Max|Min|Limit|TimeoutMs))\s*(?:=|\{)")
CONSTANT = re.compile(r"^\s*(?:inline\s+)?constexpr\b.*\b(k\w+)\s*(?:=|\{)")
# A layout's own bounds are part of the layout.
ALLOWED = ("proto/ring/ring_abi.h",)


def check(tree: Tree) -> list[Problem]:
    problems = []
    for path, text in tree.cpp("runtime", "plugins", "server", "client").items():
        if path.endswith("/limits.h"):
            problems += _without_reason(path, text)
        elif path not in ALLOWED:
            problems += [
                Problem(path, number, f"{match.group(1)} belongs in limits.h, with its reason")
                for number, line in code_lines(text)
                if (match := LIMIT.search(line)) and "numeric_limits" not in line
            ]
    return problems


def _without_reason(path: str, text: str) -> list[Problem]:
    """A constant needs a comment above it (one comment may serve neighbours) or at its end."""
    problems, covered = [], False
    for number, line in enumerate(text.splitlines(), 1):
        constant = CONSTANT.match(line)
        if line.strip().startswith("//"):
            covered = True
        elif constant:
            if not covered and "//" not in line:
                problems.append(Problem(path, number, f"{constant.group(1)} has no reason"))
        elif not line.strip():
            covered = False
    return problems
