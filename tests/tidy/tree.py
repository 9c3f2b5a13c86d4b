"""The tree that is checked, and what a check answers."""

from __future__ import annotations

import dataclasses
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CPP = (".cc", ".h")
SOURCE_FOLDERS = ("proto", "server", "client", "runtime", "plugins")
BINARY = (".png", ".gz", ".zst", ".ico", ".woff2")


@dataclasses.dataclass(frozen=True)
class Problem:
    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


class Tree(dict[str, str]):
    """Path relative to the root -> text."""

    def cpp(self, *folders: str) -> Tree:
        return self.under(*(folders or SOURCE_FOLDERS), suffixes=CPP)

    def under(self, *folders: str, suffixes: tuple[str, ...] = ()) -> Tree:
        """The files in any of the folders whose name has one of the suffixes."""
        return Tree(
            (path, text)
            for path, text in self.items()
            if (not folders or any(path.startswith(folder + "/") for folder in folders))
            and (not suffixes or path.endswith(suffixes))
        )

    def without(self, *starts: str) -> Tree:
        return Tree((path, text) for path, text in self.items() if not path.startswith(starts))


def code_lines(text: str) -> list[tuple[int, str]]:
    """C++ lines with their numbers; comments and the inside of string literals blanked out."""
    out = []
    for number, line in enumerate(text.splitlines(), 1):
        kept, quote, index = [], "", 0
        while index < len(line):
            char = line[index]
            if quote:
                if char == "\\":
                    index += 1
                elif char == quote:
                    quote = ""
                    kept.append(char)
            elif char in "\"'" and not (char == "'" and index and line[index - 1].isalnum()):
                quote = char
                kept.append(char)
            elif line.startswith("//", index):
                break
            else:
                kept.append(char)
            index += 1
        out.append((number, "".join(kept)))
    return out


def repository() -> Tree:
    """Every tracked or new file that git does not ignore."""
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout.split("\0")
    tree = Tree()
    for name in filter(None, names):
        path = ROOT / name
        if path.is_file() and not name.endswith(BINARY) and "/corpus/" not in name:
            tree[name] = path.read_text(errors="replace")
    return tree
