"""Words that do not belong in tracked files."""

from __future__ import annotations

import re

from tree import Problem, Tree

FORBIDDEN = (
    (r"(?<![\w.])/(?:work|farm)/\w|(?<![\w.])/home/\w+/|(?<![\w.])/root/", "a path of one machine"),
    (r"(?<![\w.])/tmp/(?:b|q|main|proto|shared)/", "a path of one machine"),
    (r"(?<![\w.])/opt/(?:wheels|pypi)", "a path of one machine"),
    (r"\b(?:FIXME|XXX|HACK)\b", "an issue, or the repair"),
    (r"(?i)\bissues? #?\d+\b", "the thing itself: issue numbers mean nothing in the tree"),
    (r"(?i)\b(?:artifactory|devpi|pypi-proxy)\b", "a registry by its public name only"),
)


def check(tree: Tree) -> list[Problem]:
    return [
        Problem(path, number, f"{match.group(0)!r} does not belong here; instead: {instead}")
        for path, text in tree.without("tests/tidy", "LICENSE").items()
        for number, line in enumerate(text.splitlines(), 1)
        for pattern, instead in FORBIDDEN
        if (match := re.search(pattern, line))
    ]
