"""The parts of the test suite: how each is built and run. A part: Context -> Counts."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import sys
import tempfile

from counts import Counts, failure, from_junit
from process import run, tail

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOGS = ROOT / "build" / "log"

# Time for each fuzz target. The two that stand between any local process and the daemon get the
# longer one.
FUZZ_SECONDS = 60

WORKERS = min(os.cpu_count() or 1, 8)  # of a Python part; each has a daemon beside it
OTHER_FUZZ_SECONDS = 30
FIRST_FUZZ_TARGETS = ("ring_decoder", "frame_parser")


@dataclasses.dataclass
class Context:
    """What one part may use."""

    part: str
    keyword: str | None
    fuzz_seconds: int | None = None

    def log(self, name: str) -> pathlib.Path:
        path = LOGS / f"tests-{self.part}-{name}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        return path

    def step(self, name: str, command, timeout_s: float, env=None, lines: int = 40) -> bool:
        """Runs a command; on failure prints the end of its log."""
        log = self.log(name)
        status = run(command, log, timeout_s, env=env, cwd=ROOT, title=f"{self.part}: {name}")
        if status != 0:
            print(f"--- {self.part}: {name} failed (status {status}); {log} ends with")
            print("\n".join(tail(log, lines)))
            print("---")
        return status == 0


def ctest(context: Context, name: str, folder: pathlib.Path, env=None, options=()) -> Counts:
    junit = LOGS / f"tests-{context.part}-{name}.xml"
    junit.unlink(missing_ok=True)
    command = [
        "ctest", "--test-dir", folder, "--output-on-failure", "--no-tests=error",
        "--output-junit", junit, "-j", str(os.cpu_count() or 1), *options,
    ]  # fmt: skip
    if context.keyword:
        command += ["-R", context.keyword, "--no-tests=ignore"]
    good = context.step(name, command, timeout_s=900, env=env)
    counts = from_junit(junit) if junit.exists() else Counts()
    if not good and counts.failed == 0:
        counts += failure(f"{context.part}: {name}")
    return counts


@contextlib.contextmanager
def private_daemon_home():
    """A temporary home for the tests' daemon: socket, logs and cache, none of them the user's."""
    with tempfile.TemporaryDirectory(prefix="neurond-tests-") as folder:
        env = {
            "XDG_RUNTIME_DIR": folder,
            "NEURON_COMPILE_CACHE_URL": os.path.join(folder, "cache"),
            "HF_HUB_OFFLINE": "1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        try:
            yield env
        finally:
            neuronctl = ROOT / "build" / "dev" / "client" / "cli" / "neuronctl"
            if neuronctl.exists() and os.path.exists(
                os.path.join(folder, "neurond", "neurond.sock")
            ):
                run([neuronctl, "stop"], LOGS / "tests-stop.log", 20, env=env)


def pytest(context: Context, folder: str, timeout_s: float = 900, workers: int = 1) -> Counts:
    """Several workers: only where no test minds the others' work."""
    junit = LOGS / f"tests-{context.part}.xml"
    junit.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={junit}", folder]
    if workers > 1:
        command += ["-n", str(workers), "--dist", "worksteal"]
    if context.keyword:
        command += ["-k", context.keyword]
    with private_daemon_home() as env:
        good = context.step("pytest", command, timeout_s, env=env, lines=80)
    counts = from_junit(junit) if junit.exists() else Counts()
    nothing_selected = context.keyword and counts == Counts()  # pytest's exit 5
    if not good and counts.failed == 0 and not nothing_selected:
        counts += failure(f"{context.part}: pytest")
    return counts


def build(context: Context, folder: str, configure: list, targets: list) -> bool:
    return context.step("configure", ["cmake", *configure], 120) and context.step(
        "build", ["ninja", "-C", ROOT / "build" / folder, *targets], 1500
    )


def sanitized(context: Context, preset: str, env) -> Counts:
    """The tests of our own code alone: those that neurond_test() labels `sanitized`."""
    if not build(context, preset, ["--preset", preset], ["sanitized_tests"]):
        return failure(f"{preset}: build")
    tests = ROOT / "build" / preset / "tests"
    return ctest(context, "ctest", tests, env, ["-L", "^sanitized$"])


def cpp(context: Context) -> Counts:
    """Every C++ test of the dev build that starts no daemon."""
    tests = ROOT / "build" / "dev" / "tests"
    counts = ctest(context, "cts", tests / "cts")
    for path in sorted((ROOT / "tests" / "unit").glob("*/CMakeLists.txt")):
        counts += ctest(context, path.parent.name, tests / "unit" / path.parent.name)
    return counts


def integration(context: Context) -> Counts:
    counts = ctest(context, "ctest", ROOT / "build" / "dev" / "tests" / "integration")
    if list((ROOT / "tests" / "integration").glob("test_*.py")):
        counts += pytest(context, "tests/integration")
    return counts


def torch(context: Context) -> Counts:
    return pytest(context, "tests/torch", 1800, WORKERS)


def models(context: Context) -> Counts:
    return pytest(context, "tests/models", 1800, WORKERS)


def cases(context: Context) -> Counts:
    return pytest(context, "tests/cases", timeout_s=1200)


def tidy(context: Context) -> Counts:
    """Style and structure: tests/tidy holds ruff and clang-format as tests too."""
    return pytest(context, "tests/tidy")


def asan(context: Context) -> Counts:
    """AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer."""
    env = {
        "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    return sanitized(context, "asan", env)


def tsan(context: Context) -> Counts:
    """What needs no gRPC: std::mutex and atomics alone, so that every edge is seen."""
    options = ["halt_on_error=1", "second_deadlock_stack=1"]
    options.append(f"suppressions={ROOT / 'tests' / 'runner' / 'tsan.supp'}")
    return sanitized(context, "tsan", {"TSAN_OPTIONS": ":".join(options)})


def fuzz(context: Context) -> Counts:
    """The libFuzzer targets, which the asan build holds too, side by side."""
    if not build(context, "asan", ["--preset", "asan"], ["fuzz_targets"]):
        return failure("fuzz: build")
    folder = ROOT / "build" / "asan"
    if not context.step("seeds", [folder / "tests/fuzz/make_seeds", folder / "seeds"], 60):
        return failure("fuzz: seeds")
    names = [path.name.removesuffix("_fuzz") for path in (folder / "tests/fuzz").glob("*_fuzz")]
    if context.keyword:
        names = [name for name in names if context.keyword in name]
    elif not set(FIRST_FUZZ_TARGETS) <= set(names):
        return failure("fuzz: a target was not built")
    names.sort(key=lambda name: (name not in FIRST_FUZZ_TARGETS, name))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return sum(pool.map(lambda name: fuzz_one(context, name), names), Counts())


def fuzz_one(context: Context, name: str) -> Counts:
    folder = ROOT / "build" / "asan"
    corpus, seeds = folder / "corpus" / name, folder / "seeds" / name  # the corpus grows run by run
    corpus.mkdir(parents=True, exist_ok=True)
    seconds = context.fuzz_seconds
    if seconds is None:
        seconds = FUZZ_SECONDS if name in FIRST_FUZZ_TARGETS else OTHER_FUZZ_SECONDS
    command = [
        folder / "tests/fuzz" / f"{name}_fuzz", f"-max_total_time={seconds}", "-timeout=30",
        "-rss_limit_mb=4096", f"-artifact_prefix={LOGS}/{name}-", "-print_final_stats=1",
        "-entropic=0",  # its bookkeeping takes most of the time of a short run
        corpus, seeds,
    ]  # fmt: skip
    if context.step(name, command, seconds + 120):
        return Counts(passed=1)
    return failure(f"fuzz: {name}")


def bench(context: Context) -> Counts:
    """The benchmarks run to their end; nothing asserts a time."""
    with private_daemon_home() as env:
        result = LOGS / "bench.json"
        good = context.step(
            "bench", [ROOT / "tests" / "bench" / "run", "--json", result], 900, env=env
        )
    print("\n".join(tail(LOGS / "tests-bench-bench.log", 20)))
    return Counts(passed=1) if good else failure("bench")


PARTS = {
    part.__name__: part
    for part in (tidy, cpp, torch, models, integration, asan, tsan, fuzz, cases, bench)
}
# Run without --only. The benchmarks are not among them: they need a machine to themselves.
DEFAULT = ("tidy", "cpp", "torch", "models", "integration", "asan", "tsan", "fuzz")
