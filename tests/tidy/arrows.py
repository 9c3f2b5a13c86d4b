"""Who may include whom (ARCHITECTURE.md, "Folders")."""

from __future__ import annotations

import re

from tree import Problem, Tree

# Folder -> what its files may include of this repository. The longest matching folder counts.
MAY_INCLUDE = {
    "proto": ("proto",),
    "runtime": ("runtime",),
    "plugins": ("plugins", "runtime"),
    "server": ("server", "proto", "plugins", "runtime"),
    "client/cli": ("client/cli", "client/cpp", "proto"),
    "client/cpp": ("client/cpp", "proto"),
    "client/ring": ("client/ring", "proto/ring"),
    "client/torch": ("client/torch", "client/ring", "proto/ring"),
}
# Folder -> system headers it must not see, and why.
MUST_NOT_SEE = {
    "runtime": (r"grpc|google/protobuf|uv\.h|httplib|neurond/", "the runtime is plain C++"),
    "plugins": (r"grpc|google/protobuf|uv\.h|httplib|neurond/", "a plugin is plain C++ and PJRT"),
    "client/ring": (
        r"grpc|google/protobuf|absl|torch|ATen|c10|neurond/|Python\.h",
        "it is linked into torch processes: torch's wheel ships old protobuf and fmt headers",
    ),
    "client/torch": (
        r"grpc|google/protobuf|absl|spdlog|fmt/|neurond/",
        "torch's wheel ships old protobuf and fmt headers; mixing them breaks",
    ),
    "server/wire": (r"grpc|httplib|uv\.h", "wire decodes bytes for ring and gRPC alike"),
}
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')
OURS = ("proto/", "runtime/", "plugins/", "server/", "client/", "tests/")


def _rule(table: dict, path: str):
    folders = [folder for folder in table if path.startswith(folder + "/")]
    return max(folders, key=len) if folders else None


def check(tree: Tree) -> list[Problem]:
    problems = []
    for path, text in tree.cpp().items():
        allowed, hidden = _rule(MAY_INCLUDE, path), _rule(MUST_NOT_SEE, path)
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            name = match.group(1) or match.group(2)
            if name.startswith(OURS):
                folders = MAY_INCLUDE.get(allowed, ())
                if not any(name.startswith(folder + "/") for folder in folders):
                    problems.append(
                        Problem(
                            path,
                            number,
                            f"{allowed} must not include {name}; it may: {', '.join(folders)}",
                        )
                    )
            elif hidden and re.match(MUST_NOT_SEE[hidden][0], name):
                problems.append(
                    Problem(
                        path, number, f"{hidden} must not see <{name}>: {MUST_NOT_SEE[hidden][1]}"
                    )
                )
            if match.group(1) and not name.startswith(OURS) and name.startswith("."):
                problems.append(Problem(path, number, f"include {name} by its path from the root"))
    return problems
