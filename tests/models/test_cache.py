"""Programs are traced, lowered and compiled once per machine, not once per process."""

from __future__ import annotations

import pytest

import zoo
from daemon import own_daemon

MODES = pytest.mark.parametrize("mode", ["eager", "compiled"])


@pytest.fixture
def daemon(device):
    if device.type != "neuron":
        pytest.skip("there is no daemon on the CPU")
    with own_daemon() as daemon:
        yield daemon


@pytest.fixture(scope="module", params=["eager", "compiled"])
def twice(request, device):
    """(mode, first, second): the lines of two processes that train every model, one after the
    other, with one daemon."""
    if device.type != "neuron":
        pytest.skip("there is no daemon on the CPU")
    with own_daemon() as daemon:
        first = daemon.run(request.param, zoo.MODELS)
        yield request.param, first, daemon.run(request.param, zoo.MODELS)


@pytest.mark.parametrize("model", zoo.MODELS)
def test_a_second_process_lowers_and_compiles_nothing(model, twice):
    mode, first, second = twice[0], twice[1][model], twice[2][model]
    assert first["traces"] > 0 and first["lowerings"] > 0 and first["compiles"] > 0
    assert (second["lowerings"], second["compiles"]) == (0, 0)
    assert second["traces"] == 0, f"{mode}: Python traced a program that the daemon knows"
    assert second["losses"] == first["losses"]
    assert first["fallbacks"] == second["fallbacks"] == []


def test_a_new_daemon_finds_the_cache_of_the_one_before(daemon):
    first = daemon.run("eager", ["mlp"])["mlp"]
    daemon.stop()
    second = daemon.run("eager", ["mlp"])["mlp"]
    assert daemon.counters() == {"lowerings": 0, "compiles": 0}
    assert second["traces"] == 0
    assert second["losses"] == first["losses"]


@MODES
def test_four_processes_at_once_compile_each_program_once(mode, daemon):
    models = ["mlp", "cnn"]
    with own_daemon() as alone:
        expected = alone.run(mode, models)
        once = alone.counters()["compiles"]

    processes = [daemon.start(mode, models) for _ in range(4)]
    answers = [daemon.finish(process) for process in processes]
    assert daemon.counters()["compiles"] == once
    for answer in answers:
        for model in models:
            assert answer[model]["losses"] == expected[model]["losses"]
            assert answer[model]["fallbacks"] == []


@MODES
def test_later_steps_compile_nothing(mode, daemon):
    daemon.run(mode, ["mlp"], steps=2)
    two = daemon.counters()
    daemon.run(mode, ["mlp"], steps=6)
    assert daemon.counters() == two
