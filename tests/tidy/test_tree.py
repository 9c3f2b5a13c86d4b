"""Every check on this repository."""

from __future__ import annotations

import pytest

import arrows
import banned
import headers
import layout
import limits
import size
import tree
import words


@pytest.fixture(scope="module")
def repository():
    return tree.repository()


CHECKS = [
    arrows.check,
    banned.check,
    headers.check,
    limits.check,
    size.check,
    words.check,
    layout.check_readmes,
    layout.check_mirrors,
    layout.check_top,
    layout.check_links,
    layout.check_dependencies,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: f"{check.__module__}.{check.__name__}")
def test_the_repository_has_no_problem(check, repository):
    problems = check(repository)
    assert not problems, "\n" + "\n".join(map(str, problems))
