"""neuronctl against a real daemon: tables, JSON, exit codes."""

from __future__ import annotations

import json
import pathlib
import shutil
import tempfile

import pytest

from remote import Api, Client, Daemon, ctl
from test_grpc import negate


@pytest.fixture(scope="module")
def daemon():
    home = pathlib.Path(tempfile.mkdtemp(prefix="neurond-ctl-"))
    daemon = Daemon(home)
    yield daemon
    daemon.end()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def client(daemon):
    with daemon.channel() as channel:
        yield Client(Api(daemon.home), channel)


def answer(daemon, *arguments):
    done = daemon.ctl(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_devices(daemon):
    devices = answer(daemon, "devices")["devices"]
    assert [device["index"] for device in devices] == [0, 1]
    table = daemon.ctl("devices").stdout.splitlines()
    assert table[0].split()[:3] == ["DEVICE", "NAME", "PLATFORM"]
    assert len(table) == 3
    assert "\033" not in "".join(table)  # no colours in a pipe


def test_sessions(daemon):
    assert answer(daemon, "sessions") == {"sessions": []}
    assert answer(daemon, "sessions", "list") == {"sessions": []}
    done = daemon.ctl("sessions", "close", "4711")
    assert done.returncode == 1
    assert "no session 4711" in done.stderr


def test_cache_list_and_clear(daemon, client):
    key = client.compile(negate("3x", "f32"), name="three").executable_key
    listed = {e["key"]: e["name"] for e in answer(daemon, "cache", "list")["executables"]}
    assert listed[key] == "three"
    assert key in daemon.ctl("cache", "list").stdout
    assert answer(daemon, "cache", "clear")["dropped"] >= 0
    assert "executables dropped" in daemon.ctl("cache", "clear").stdout


def test_stats(daemon, client):
    before = answer(daemon, "stats")
    client.compile(negate("11x", "f32"))
    after = answer(daemon, "stats")
    assert after["executables"]["compiles"] == before["executables"]["compiles"] + 1
    assert after["remote"]["compiles"] == before["remote"]["compiles"] + 1
    assert after["workers"]["started"] >= 1
    for key in ("lowerings", "memory_hits", "disk_hits", "alias_hits", "alias_misses"):
        assert isinstance(after["programs"][key], int)
    assert "compiler workers" in daemon.ctl("stats").stdout


def test_health_and_info(daemon):
    assert answer(daemon, "health") == {"status": "SERVING"}
    info = answer(daemon, "info")
    assert info["pid"] == daemon.process.pid
    assert info["config"]["socket"] == str(daemon.socket)
    assert len(info["build_id"]) >= 16


def test_the_daemon_is_found_beside_its_ring_socket(daemon):
    done = ctl("health", NEURON_RT_ADDRESS=str(daemon.socket))
    assert (done.returncode, done.stdout) == (0, "SERVING\n"), done.stderr


@pytest.mark.parametrize("command", ["devices", "stats", "health", "info", "stop"])
def test_no_daemon_is_exit_code_3_and_says_where_it_looked(command, tmp_path):
    done = ctl(command, address=f"unix:{tmp_path}/none.sock")
    assert done.returncode == 3
    assert f"no neurond answers at unix:{tmp_path}/none.sock" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["cache"], ["sessions", "close"]])
def test_wrong_usage_is_exit_code_2(arguments):
    assert ctl(*arguments).returncode == 2


def test_stop_waits_for_the_end():
    home = pathlib.Path(tempfile.mkdtemp(prefix="neurond-stop-"))
    daemon = Daemon(home)
    try:
        done = daemon.ctl("stop", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {"pid": daemon.process.pid, "stopped": True}
        assert daemon.process.wait(timeout=10) == 0
        assert daemon.ctl("health").returncode == 3
    finally:
        daemon.end()
        shutil.rmtree(home, ignore_errors=True)
