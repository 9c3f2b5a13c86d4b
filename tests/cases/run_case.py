"""Runs one case file: python run_case.py FILE DEVICE. Exit 0: it holds."""

from __future__ import annotations

import importlib.util
import pathlib
import sys


def main() -> None:
    path, device = pathlib.Path(sys.argv[1]), sys.argv[2]
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    case = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = case  # spawned children find it by name
    import torch

    spec.loader.exec_module(case)
    case.run(torch, device)


if __name__ == "__main__":
    main()
