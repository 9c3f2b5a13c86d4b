"""Each check finds what it is for, and leaves good code alone."""

from __future__ import annotations

import pytest

import arrows
import banned
import headers
import layout
import limits
import size
import words
from tree import Tree, code_lines

GOOD_HEADER = """// Thing: what, owner, thread.
//
// Thread-safety: all methods.
#ifndef NEUROND_RUNTIME_BASE_THING_H_
#define NEUROND_RUNTIME_BASE_THING_H_
class Thing {
};
#endif  // NEUROND_RUNTIME_BASE_THING_H_
"""
HEADER = "runtime/base/thing.h"
LONG_CPP = "void F() {\n" + "  g();\n" * 120 + "}\n"
LONG_PY = "def f():\n" + "    g()\n" * 120

BAD = {
    "runtime includes server": (arrows.check, {"runtime/a.cc": '#include "server/b.h"\n'}),
    "runtime sees gRPC": (arrows.check, {"runtime/a.cc": "#include <grpcpp/grpcpp.h>\n"}),
    "plugins include server": (arrows.check, {"plugins/p/a.cc": '#include "server/b.h"\n'}),
    "ring client sees abseil": (
        arrows.check,
        {"client/ring/a.h": '#include "absl/status/status.h"\n'},
    ),
    "torch shim includes proto": (
        arrows.check,
        {"client/torch/csrc/a.cc": '#include "proto/grpc/a.h"\n'},
    ),
    "shim sees protobuf": (
        arrows.check,
        {"client/torch/csrc/a.cc": "#include <google/protobuf/a.h>\n"},
    ),
    "client includes runtime": (
        arrows.check,
        {"client/cli/a.cc": '#include "runtime/base/dtype.h"\n'},
    ),
    "server includes client": (
        arrows.check,
        {"server/ring/a.cc": '#include "client/ring/client.h"\n'},
    ),
    "relative include": (arrows.check, {"runtime/a.cc": '#include "../b.h"\n'}),
    "detached thread": (banned.check, {"server/a.cc": "thread.detach();\n"}),
    "absl mutex in runtime": (banned.check, {"runtime/a.h": "absl::Mutex mutex_;\n"}),
    "exit in the ring": (banned.check, {"server/ring/a.cc": "  exit(1);\n"}),
    "sleep": (banned.check, {"server/a.cc": "std::this_thread::sleep_for(x);\n"}),
    "throw": (banned.check, {"runtime/a.cc": "throw Error();\n"}),
    "printf in runtime": (banned.check, {"runtime/a.cc": 'printf("x");\n'}),
    "getenv in runtime": (banned.check, {"runtime/a.cc": 'getenv("HOME");\n'}),
    "using namespace": (banned.check, {"client/cli/a.cc": "using namespace std;\n"}),
    "pragma once": (banned.check, {"client/cli/a.h": "#pragma once\n"}),
    "print in torch_neuronx": (banned.check, {"client/torch/torch_neuronx/a.py": "print(1)\n"}),
    "shell": (banned.check, {"tests/a.py": "run(x, shell=True)\n"}),
    "sleep in a test": (banned.check, {"tests/torch/a.py": "time.sleep(2)\n"}),
    "long file": (size.check, {"server/a.cc": "int x;\n" * 501}),
    "long test": (size.check, {"tests/unit/a/a_test.cc": "int x;\n" * 801}),
    "long C++ function": (size.check, {"server/a.cc": LONG_CPP}),
    "long Python function": (size.check, {"client/torch/a.py": LONG_PY}),
    "missing README": (layout.check_readmes, {f"runtime/x/{n}.cc": "" for n in "abcd"}),
    "missing mirror": (layout.check_mirrors, {"runtime/x/a.cc": "", "tests/unit/y/y_test.cc": ""}),
    "new top folder": (layout.check_top, {"src/a.cc": ""}),
    "dead link": (layout.check_links, {"README.md": "see [this](server/gone.md)\n"}),
    "unlisted apt package": (
        layout.check_dependencies,
        {"deploy/apt-packages.txt": "zlib1g-dev build x\n"},
    ),
    "unlisted pip package": (layout.check_dependencies, {"deploy/requirements.txt": "numpy==1\n"}),
    "machine path": (words.check, {"deploy/a": "cd /" + "work/main\n"}),
    "home path": (words.check, {"deploy/a": "cd /" + "home/me/x\n"}),
    "issue number": (words.check, {"README.md": "see issue 3\n"}),
    "FIXME": (words.check, {"server/a.cc": "// FIXME later\n"}),
    "no guard": (headers.check, {HEADER: "// Prose.\nint f();\n"}),
    "wrong guard": (headers.check, {HEADER: GOOD_HEADER.replace("THING_H_", "THING_H")}),
    "no prose": (headers.check, {HEADER: GOOD_HEADER.split("\n", 3)[3]}),
    "no thread safety": (headers.check, {HEADER: GOOD_HEADER.replace("Thread-safety", "Threads")}),
    "static registration": (
        headers.check,
        {"plugins/fake/a.cc": "static bool registered = Add();\n"},
    ),
    "constructor": (headers.check, {"server/a.cc": "__attribute__((constructor)) void F();\n"}),
    "torch macro outside the shim": (headers.check, {"server/a.cc": "REGISTER_THING(x);\n"}),
    "limit elsewhere": (limits.check, {"server/a.cc": "constexpr int kBytesMax = 3;\n"}),
    "limit without a reason": (
        limits.check,
        {"server/limits.h": "\ninline constexpr int kBytesMax = 3;\n"},
    ),
}

GOOD = {
    "arrows": (
        arrows.check,
        {
            "runtime/a.cc": '#include "runtime/b.h"\n#include <mutex>\n',
            "server/a.cc": '#include "proto/ring/ring_abi.h"\n#include "plugins/registry.h"\n',
            "client/torch/csrc/a.cc": '#include "client/ring/a.h"\n#include <ATen/Tensor.h>\n',
        },
    ),
    "words in comments and strings": (
        banned.check,
        {"runtime/a.cc": '// throw and exit(1)\nauto x = "printf(";\nstd::string sprintfs;\n'},
    ),
    "torch_sleep in a bench": (banned.check, {"tests/bench/a.py": "time.sleep(5)\n"}),
    "short": (
        size.check,
        {"server/a.cc": "void F() {\n  g();\n}\n" * 100, "client/a.py": "x = 1\n"},
    ),
    "readme there": (
        layout.check_readmes,
        {**{f"runtime/x/{n}.cc": "" for n in "abcd"}, "runtime/x/README.md": ""},
    ),
    "mirror there": (layout.check_mirrors, {"runtime/x/a.cc": "", "tests/unit/x/a_test.cc": ""}),
    "links": (
        layout.check_links,
        {
            "README.md": "[a](server/b.md) [c](server) [d](https://x.org)",
            "server/b.md": "[r](../README.md)",
        },
    ),
    "listed packages": (
        layout.check_dependencies,
        {"deploy/requirements.txt": "numpy==1\n", "DEPENDENCIES.md": "| `numpy` | BSD |\n"},
    ),
    "paths": (words.check, {"deploy/a": "cd /usr/lib; /tmp/neurond-1000/x; ./work/x; $HOME/x\n"}),
    "header": (headers.check, {HEADER: GOOD_HEADER}),
    "torch macro": (headers.check, {"client/torch/csrc/a.cc": "C10_REGISTER_GUARD_IMPL(P, G);\n"}),
    "limits": (
        limits.check,
        {
            "server/limits.h": "// Because.\ninline constexpr int kAMax = 1;\n",
            "server/a.cc": "constexpr int kTableSize = 3;\n",
        },
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_tree_is_noticed(name):
    check, files = BAD[name]
    assert check(Tree(files))


@pytest.mark.parametrize("name", GOOD)
def test_a_good_tree_passes(name):
    check, files = GOOD[name]
    assert check(Tree(files)) == []


def test_code_lines_blank_comments_and_strings():
    text = "auto a = \"b // c\"; // d\nint n = 1'000; char c = '\"'; f();"
    assert code_lines(text) == [(1, 'auto a = ""; '), (2, "int n = 1'000; char c = ''; f();")]
