"""READMEs, mirrors, links and the list of dependencies."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict

from tree import SOURCE_FOLDERS, Problem, Tree

# A folder with more concepts than this (.h and .cc of one name count once) says what it is for.
CONCEPTS_WITHOUT_README = 3
TOP = {"proto", "server", "client", "runtime", "plugins", "tests", "deploy", ".ci"}
# Folders whose C++ has unit tests in tests/unit/<last part>; the others are tested by tests/cts,
# integration and torch.
MIRRORED = ("runtime/", "server/wire", "server/ring", "client/ring", "plugins/fake")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def _folders(tree: Tree) -> dict[str, set[str]]:
    """Folder -> the concepts in it."""
    folders = defaultdict(set)
    for path in tree.under(*SOURCE_FOLDERS, "tests", "deploy", suffixes=(".cc", ".h", ".py")):
        folder, name = posixpath.split(path)
        if name not in ("__init__.py", "conftest.py"):
            folders[folder].add(name.rsplit(".", 1)[0])
    return folders


def check_readmes(tree: Tree) -> list[Problem]:
    return [
        Problem(folder, 1, f"{len(concepts)} concepts and no README.md (job, threads, life)")
        for folder, concepts in sorted(_folders(tree).items())
        if len(concepts) > CONCEPTS_WITHOUT_README
        and f"{folder}/README.md" not in tree
        # tests/unit and friends: the file names say it all
        and not folder.startswith(
            ("tests/unit/", "tests/torch", "tests/cases", "tests/integration")
        )
    ]


def check_mirrors(tree: Tree) -> list[Problem]:
    tests = {
        path.split("/")[2]
        for path in tree
        if path.startswith("tests/unit/") and path.count("/") > 2
    }
    problems = []
    for folder in sorted({posixpath.dirname(p) for p in tree.cpp() if p.endswith(".cc")}):
        name = posixpath.basename(folder)
        names = {name, folder.replace("/", "_")}
        if folder.startswith(MIRRORED) and not names & tests:
            problems.append(Problem(folder, 1, f"no tests/unit/{name}: tests mirror the tree"))
    return problems


def check_top(tree: Tree) -> list[Problem]:
    return [
        Problem(path, 1, f"the top level is fixed: {', '.join(sorted(TOP))}")
        for path in sorted(tree)
        if "/" in path and path.split("/")[0] not in TOP
    ]


def check_links(tree: Tree) -> list[Problem]:
    """Every relative link in a .md file leads to a file or folder."""
    folders = {posixpath.dirname(path) for path in tree}
    folders |= {
        "/".join(f.split("/")[:n]) for f in set(folders) for n in range(1, f.count("/") + 1)
    }
    problems = []
    for path, text in tree.under(suffixes=(".md",)).items():
        for number, line in enumerate(text.splitlines(), 1):
            for target in LINK.findall(line):
                if "://" in target or target.startswith("mailto:"):
                    continue
                place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
                if place not in tree and place not in folders and place != ".":
                    problems.append(Problem(path, number, f"dead link: {target}"))
    return problems


def check_dependencies(tree: Tree) -> list[Problem]:
    """Each package that deploy/ installs stands in DEPENDENCIES.md, with its licence and why."""
    listed = tree.get("DEPENDENCIES.md", "")
    problems = []
    for path, pattern in (
        ("deploy/apt-packages.txt", r"^([a-z0-9][a-z0-9+.-]*)\s+(?:build|tests)\s"),
        ("deploy/requirements.txt", r"^([A-Za-z0-9_-]+)=="),
    ):
        for number, line in enumerate(tree.get(path, "").splitlines(), 1):
            match = re.match(pattern, line)
            if match and f"`{match.group(1)}`" not in listed:
                problems.append(
                    Problem(path, number, f"{match.group(1)} is not in DEPENDENCIES.md")
                )
    return problems


def check(tree: Tree) -> list[Problem]:
    return (
        check_readmes(tree)
        + check_mirrors(tree)
        + check_top(tree)
        + check_links(tree)
        + check_dependencies(tree)
    )
