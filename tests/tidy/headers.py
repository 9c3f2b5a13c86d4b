"""Headers: guard, opening prose, Thread-safety. Anywhere: no registration by initialisers."""

from __future__ import annotations

import re

from tree import Problem, Tree, code_lines

PROSE_LINES_MIN = 1
CLASS = re.compile(r"^class \w+[^;]*$")
REGISTRATION = re.compile(
    r"^(?:static |const |inline )*(?:bool|int|auto) \w*(?:[Rr]egister|[Rr]egistrar)\w* *="
    r"|__attribute__\(\(constructor|^\w*REGISTER\w*\("
)
# PyTorch takes a backend in no other way than through these macros.
TORCH_REGISTRATION = re.compile(r"^(?:C10_REGISTER|REGISTER_|TORCH_LIBRARY|STATIC_)")


def guard_of(path: str) -> str:
    """runtime/base/dtype.h -> NEUROND_RUNTIME_BASE_DTYPE_H_"""
    return "NEUROND_" + re.sub(r"[^A-Z0-9]", "_", path.upper()) + "_"


def check(tree: Tree) -> list[Problem]:
    problems = []
    for path, text in tree.under(suffixes=(".h",)).items():
        lines = text.splitlines()
        guard = guard_of(path)
        if f"#ifndef {guard}" not in lines or f"#define {guard}" not in lines:
            problems.append(Problem(path, 1, f"no include guard {guard}"))
        if not lines or not lines[0].startswith(("//", "/*")):
            problems.append(
                Problem(path, 1, "opens without prose: what, owner, thread, what fails")
            )
        has_class = any(CLASS.match(line) for line in lines)
        if has_class and "Thread-safety" not in text and not path.startswith("tests/"):
            problems.append(Problem(path, 1, "a class without a Thread-safety line"))
    for path, text in tree.cpp().items():
        torch = path.startswith("client/torch/csrc/")
        problems += [
            Problem(path, number, "registration by a static initialiser; list it where it is used")
            for number, line in code_lines(text)
            if REGISTRATION.search(line) and not (torch and TORCH_REGISTRATION.match(line))
        ]
    return problems
