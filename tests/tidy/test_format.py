"""ruff, clang-format and the shell's own syntax check."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

import tree

ROOT = tree.ROOT
BIN = pathlib.Path(sys.executable).parent


def run(*command) -> str:
    """The output of a command that failed; empty if it went well."""
    answer = subprocess.run([str(c) for c in command], cwd=ROOT, capture_output=True, text=True)
    return (
        "" if answer.returncode == 0 else answer.stdout + answer.stderr or "failed without a word"
    )


def cpp_files() -> list[str]:
    return sorted(tree.repository().under(suffixes=tree.CPP))


def test_ruff_finds_nothing():
    assert not run(BIN / "ruff", "check", "--output-format", "concise", ".")


def test_python_is_formatted():
    assert not run(BIN / "ruff", "format", "--check", ".")


def test_cpp_is_formatted():
    complaints = run(BIN / "clang-format", "--dry-run", "-Werror", *cpp_files())
    files = sorted({line.split(":")[0] for line in complaints.splitlines() if " error: " in line})
    assert not complaints, "clang-format -i " + " ".join(files)


def test_clang_format_notices_a_bad_file(tmp_path):
    bad = tmp_path / "bad.cc"
    bad.write_text("int  main( ){return 0 ;}\n")
    style = f"--style=file:{ROOT / '.clang-format'}"
    assert run(BIN / "clang-format", style, "--dry-run", "-Werror", bad)


def shell_scripts() -> list[str]:
    return sorted(
        p for p, text in tree.repository().items() if text.startswith("#!/usr/bin/env bash")
    )


@pytest.mark.parametrize("path", shell_scripts())
def test_shell_scripts_parse_and_can_be_run(path):
    assert not run("bash", "-n", path)
    assert (ROOT / path).stat().st_mode & 0o111, "chmod +x"
