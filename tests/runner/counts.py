"""Counts of a test run, read from JUnit XML, which ctest and pytest both write."""

from __future__ import annotations

import dataclasses
import pathlib
import xml.etree.ElementTree as ElementTree


@dataclasses.dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = dataclasses.field(default_factory=list)

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.failures + other.failures,
        )


def failure(name: str) -> Counts:
    """One failed test called `name`: a build or a run that did not come as far as its tests."""
    return Counts(failed=1, failures=[name])


def from_junit(path: pathlib.Path) -> Counts:
    """Counts every <testcase> of a JUnit file. A test that ctest did not run counts as failed."""
    counts = Counts()
    for case in ElementTree.parse(path).iter("testcase"):
        name = "::".join(filter(None, (case.get("classname"), case.get("name"))))
        status = case.get("status", "")
        if case.find("failure") is not None or case.find("error") is not None or status == "fail":
            counts += failure(name)
        elif case.find("skipped") is not None or status in ("notrun", "disabled"):
            if status == "notrun" and "NOT_BUILT" in name:
                counts += failure(name)
            else:
                counts.skipped += 1
        else:
            counts.passed += 1
    return counts
