"""Length of files and functions."""

from __future__ import annotations

import ast
import re

from tree import SOURCE_FOLDERS, Problem, Tree

FILE_LINES_MAX = 500
TEST_FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 100

# Longer than they should be: to be split, and not to grow.
LONGER = {}

# The start of a function's body at the left margin, in clang-format's Google style.
CPP_BODY = re.compile(r"^(?!namespace|class|struct|enum|union|extern|#|//|\}).*[^=,]\{$")


def cpp_functions(text: str) -> list[tuple[int, int]]:
    """(first line, number of lines) of each function at namespace scope."""
    found, start = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if start is None and line[:1] not in (" ", "") and CPP_BODY.match(line.rstrip()):
            start = number
        elif start is not None and line.startswith("}"):
            found.append((start, number - start + 1))
            start = None
    return found


def python_functions(text: str) -> list[tuple[int, int]]:
    return [
        (node.lineno, node.end_lineno - node.lineno + 1)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def check(tree: Tree) -> list[Problem]:
    problems = []
    for path, text in tree.under(
        *SOURCE_FOLDERS, "tests", "deploy", suffixes=(".cc", ".h", ".py")
    ).items():
        limit = TEST_FILE_LINES_MAX if path.startswith("tests/") else FILE_LINES_MAX
        limit = LONGER.get(path, limit)
        lines = text.count("\n")
        if lines > limit:
            problems.append(Problem(path, limit, f"{lines} lines; split it by noun before {limit}"))
        functions = python_functions(text) if path.endswith(".py") else cpp_functions(text)
        problems += [
            Problem(path, start, f"a function of {length} lines; at most {FUNCTION_LINES_MAX}")
            for start, length in functions
            if length > FUNCTION_LINES_MAX
        ]
    return problems
