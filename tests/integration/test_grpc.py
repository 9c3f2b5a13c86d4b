"""neurond.v1 over a real daemon, from a client that knows only the .proto files."""

from __future__ import annotations

import concurrent.futures
import pathlib
import shutil
import tempfile
import threading
import time

import grpc
import numpy as np
import pytest
from google.protobuf import descriptor_pb2

from remote import DTYPES, Api, Client, Daemon, eventually

MATMUL = """
module @matmul {
  func.func public @main(%a: tensor<33x17xf32>, %b: tensor<17x9xf32>) -> tensor<33x9xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
        : (tensor<33x17xf32>, tensor<17x9xf32>) -> tensor<33x9xf32>
    return %0 : tensor<33x9xf32>
  }
}
"""

# As jax.export prints them: attributes on arguments and results, several results, a private helper.
EXPORTED = """
module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x4xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<i32>)
      -> (tensor<3x4xf32> {jax.result_info = "[0]"}, tensor<4xi1> {jax.result_info = "[1]"}) {
    %0 = call @twice(%arg0) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %c = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<3x4xf32>
    %2 = stablehlo.subtract %0, %1 : tensor<3x4xf32>
    %3 = stablehlo.slice %2 [0:1, 0:4] : (tensor<3x4xf32>) -> tensor<1x4xf32>
    %4 = stablehlo.reshape %3 : (tensor<1x4xf32>) -> tensor<4xf32>
    %cst = stablehlo.constant dense<0.0> : tensor<4xf32>
    %5 = stablehlo.compare GT, %4, %cst : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    return %2, %5 : tensor<3x4xf32>, tensor<4xi1>
  }
  func.func private @twice(%arg0: tensor<3x4xf32>) -> tensor<3x4xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<3x4xf32>
    return %0 : tensor<3x4xf32>
  }
}
"""


# A loop of `limit` steps that no compiler can shorten, about 2 ns a step. The matmul makes XLA run
# it on a thread of its own; what it takes for cheap runs inside the call, where nothing can be cut.
SLOW = """
func.func @main(%limit: tensor<i64>, %m: tensor<64x64xf32>) -> (tensor<i64>, tensor<64x64xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %one = stablehlo.constant dense<1> : tensor<i64>
  %0:2 = stablehlo.while(%i = %zero, %x = %limit) : tensor<i64>, tensor<i64>
    cond { %c = stablehlo.compare LT, %i, %limit : (tensor<i64>, tensor<i64>) -> tensor<i1>
           stablehlo.return %c : tensor<i1> }
    do { %n = stablehlo.add %i, %one : tensor<i64>
         %square = stablehlo.multiply %x, %x : tensor<i64>
         %y = stablehlo.add %square, %n : tensor<i64>
         stablehlo.return %n, %y : tensor<i64>, tensor<i64> }
  %mm = stablehlo.dot_general %m, %m, contracting_dims = [1] x [0]
      : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0#1, %mm : tensor<i64>, tensor<64x64xf32>
}
"""
SLOW_INPUTS = (np.array(1_000_000_000), np.zeros((64, 64), np.float32))
# Longer than a drain waits for calls.
LONG_INPUTS = (np.array(4_000_000_000), np.zeros((64, 64), np.float32))


def negate(shape: str, kind: str) -> str:
    t = f"tensor<{shape}{kind}>"
    return f"func.func @main(%a: {t}) -> {t} {{ %0 = stablehlo.negate %a : {t}\n return %0 : {t} }}"


@pytest.fixture(scope="module")
def home():
    # Not pytest's tmp_path: a socket's path has 108 bytes at most.
    path = pathlib.Path(tempfile.mkdtemp(prefix="neurond-grpc-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def api(home):
    return Api(home)


@pytest.fixture(scope="module")
def daemon(home):
    daemon = Daemon(home, "--grpc-address", "127.0.0.1:0")
    yield daemon
    daemon.end()


@pytest.fixture
def client(api, daemon):
    with daemon.channel() as channel:
        yield Client(api, channel)


def refused(call) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as error:
        call()
    return error.value.code(), error.value.details()


def test_matmul_is_numpys(client):
    random = np.random.default_rng(0)
    a = random.standard_normal((33, 17), np.float32)
    b = random.standard_normal((17, 9), np.float32)
    program = client.compile(MATMUL)
    assert len(program.executable_key) == 32
    (result,) = client.execute(program.program_id, a, b, device=1)
    np.testing.assert_allclose(result, a @ b, rtol=1e-5, atol=1e-5)


def test_a_module_with_attributes_helpers_and_two_results(client):
    program = client.compile(EXPORTED)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    values, positive = client.execute(program.program_id, x, np.array(3, np.int32))
    np.testing.assert_array_equal(values, 2 * x - 3)
    np.testing.assert_array_equal(positive, (2 * x - 3)[0] > 0)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("i8", np.int8), ("i16", np.int16), ("i32", np.int32), ("i64", np.int64),
        ("f16", np.float16), ("f32", np.float32), ("f64", np.float64),
        ("complex<f32>", np.complex64), ("complex<f64>", np.complex128),
    ],
)  # fmt: skip
def test_every_dtype_round_trips(client, kind, dtype):
    x = (np.arange(6).reshape(2, 3) - 2).astype(dtype)
    program = client.compile(negate("2x3x", kind))
    (result,) = client.execute(program.program_id, x)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, -x)


def test_the_same_module_compiles_once_for_everybody(client, daemon):
    text = negate("7x", "f32")
    before = daemon.stats()["executables"]["compiles"]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        programs = list(pool.map(lambda _: client.compile(text).program_id, range(6)))
    assert len(set(programs)) == 1
    assert daemon.stats()["executables"]["compiles"] == before + 1


def test_large_tensors_go_through_the_stream(client):
    x = np.random.default_rng(1).standard_normal((3000, 1111), np.float32)  # 13 MB
    program = client.compile(negate("3000x1111x", "f32"))
    (result,) = client.execute_stream(program.program_id, x)
    np.testing.assert_array_equal(result, -x)
    code, text = refused(
        lambda: client.execute(
            client.compile(
                "func.func @main() -> tensor<3000x1111xf32> {"
                "%0 = stablehlo.constant dense<1.0> : tensor<3000x1111xf32>\n"
                "return %0 : tensor<3000x1111xf32> }"
            ).program_id
        )
    )
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "use ExecuteStream" in text


def test_bad_inputs_are_named(client):
    program = client.compile(MATMUL).program_id
    a, b = np.zeros((33, 17), np.float32), np.zeros((17, 9), np.float32)
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    assert refused(lambda: client.execute(program, a)) == (invalid, "inputs: expected 2, saw 1")
    assert refused(lambda: client.execute(program, a, b.T.copy())) == (
        invalid, "input 1: expected float32[17,9], saw float32[9,17]",
    )  # fmt: skip
    assert refused(lambda: client.execute(program, a.astype(np.float64), b)) == (
        invalid, "input 0: expected float32[33,17], saw float64[33,17]",
    )  # fmt: skip
    assert refused(lambda: client.execute(program, a, b, words=[1]))[0] == invalid
    assert refused(lambda: client.execute(program, a, b, device=2))[0] == grpc.StatusCode.NOT_FOUND
    assert refused(lambda: client.execute(10**9, a, b))[0] == grpc.StatusCode.NOT_FOUND


def test_bad_modules_are_refused_and_the_daemon_lives_on(client, daemon):
    for text in ["", "module {", "func.func @main() -> tensor<f32> { }", "\x01", MATMUL[:-40]]:
        code, _ = refused(lambda text=text: client.compile(text))
        assert code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNKNOWN), text
    code, text = refused(
        lambda: client.compile(
            "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {"
            "%0 = stablehlo.custom_call @evil(%a) : (tensor<2xf32>) -> tensor<2xf32>\n"
            "return %0 : tensor<2xf32> }"
        )
    )
    assert code == grpc.StatusCode.UNIMPLEMENTED
    assert "custom_call @evil" in text
    signature = {"inputs": [{"dtype": 12, "sizes": [17, 33]}], "outputs": []}
    assert refused(lambda: client.compile(MATMUL, signature=signature))[1] == (
        "signature: declared 1 inputs, @main has 2"
    )
    assert daemon.process.poll() is None
    test_matmul_is_numpys(client)


def test_a_program_of_aten_nodes(client, api):
    view = {"dtype": 12, "sizes": [2, 3], "strides": [3, 1], "offset_word": -1}
    program = api.message("Program")(
        name="aten.add.Tensor",
        buffers=[{"dtype": 12, "elements": 6}] * 2,
        inputs=[{"buffer": 0, "view": view}, {"buffer": 1, "view": view}],
        nodes=[{
            "op": "aten.add.Tensor",
            "args": [{"value": 0}, {"value": 1}, {"int_value": 1}],
            "results": [{"dtype": 12, "sizes": [2, 3]}],
        }],
        outputs=[{"value": 2, "create": {"strides": [3, 1]}}],
        seed_word=-1,
        offset_word=-1,
        precision="highest",
    )  # fmt: skip
    compiled = client.call("ProgramService.Compile", program=program.SerializeToString())
    a, b = np.arange(6, dtype=np.float32), np.full(6, 10, np.float32)
    (result,) = client.execute(compiled.program_id, a, b)
    np.testing.assert_array_equal(result, a + b)


def test_concurrent_clients_get_their_own_results(api, daemon):
    def work(number):
        with daemon.channel() as channel:
            client = Client(api, channel)
            program = client.compile(negate("1000x", "f32")).program_id
            for step in range(10):
                x = np.full(1000, number * 100 + step, np.float32)
                (result,) = client.execute(program, x, device=number % 2)
                np.testing.assert_array_equal(result, -x)
        return True

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert eventually(lambda: not daemon.stats()["sessions"])
    assert all(device["granted_bytes"] == 0 for device in daemon.stats()["devices"])


def test_a_disk_hit_after_a_restart(api, home):
    own = home / "restart"
    own.mkdir()
    text = negate("5x5x", "f32")
    for compiles, disk_hits in [(1, 0), (0, 1)]:
        daemon = Daemon(own)
        try:
            with daemon.channel() as channel:
                client = Client(api, channel)
                x = np.ones((5, 5), np.float32)
                (result,) = client.execute(client.compile(text).program_id, x)
                np.testing.assert_array_equal(result, -x)
            counters = daemon.stats()["executables"]
            assert (counters["compiles"], counters["disk_hits"]) == (compiles, disk_hits)
        finally:
            daemon.end()


def test_devices_are_listed_and_watched(client):
    devices = client.call("DeviceService.ListDevices").devices
    assert [device.index for device in devices] == [0, 1]
    assert all(device.platform == "cpu" for device in devices)
    stream = client.call("DeviceService.WatchDevices", interval_ms=100)
    first = next(stream).devices[0].counters.executes
    program = client.compile(negate("2x", "f32")).program_id
    client.execute(program, np.zeros(2, np.float32))
    assert any(m.devices[0].counters.executes > first for m in stream)
    stream.cancel()
    code, _ = refused(lambda: next(client.call("DeviceService.WatchDevices", interval_ms=1)))
    assert code == grpc.StatusCode.INVALID_ARGUMENT


def test_health(client):
    assert client.call("grpc.health.v1.Health.Check").status == 1
    code, _ = refused(lambda: client.call("grpc.health.v1.Health.Check", service="nothing"))
    assert code == grpc.StatusCode.NOT_FOUND


def test_reflection_describes_every_service_that_it_lists(client, api):
    def ask(**question):
        request = api.message("grpc.reflection.v1alpha.ServerReflectionRequest")
        call = api.call(
            client.channel, "grpc.reflection.v1alpha.ServerReflection.ServerReflectionInfo"
        )
        (answer,) = call(iter([request(**question)]), timeout=60)
        assert not answer.HasField("error_response"), (question, answer.error_response)
        return answer

    services = {s.name for s in ask(list_services="").list_services_response.service}
    expected = {"neurond.v1.DeviceService", "neurond.v1.ProgramService", "grpc.health.v1.Health"}
    assert expected <= services
    for service in services:
        files = ask(file_containing_symbol=service).file_descriptor_response.file_descriptor_proto
        described = [descriptor_pb2.FileDescriptorProto.FromString(f) for f in files]
        assert any(f"{f.package}.{s.name}" == service for f in described for s in f.service)


def test_over_tcp_one_may_execute_but_not_stop(api, daemon):
    port = next(
        line.rsplit(" ", 1)[1] for line in daemon.log().splitlines() if "gRPC on TCP port" in line
    )
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        client = Client(api, channel)
        test_matmul_is_numpys(client)
        code, _ = refused(lambda: client.call("DeviceService.Shutdown"))
        assert code == grpc.StatusCode.PERMISSION_DENIED
        assert daemon.process.poll() is None


@pytest.fixture
def own_daemon(home):
    """A daemon whose device a test may leave busy."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="own-", dir=home))
    daemon = Daemon(path)
    yield daemon
    daemon.end()


def sessions(daemon) -> list[dict]:
    return daemon.stats()["sessions"]


def test_a_call_that_passes_its_deadline_leaves_no_session(api, own_daemon):
    with own_daemon.channel() as channel:
        client = Client(api, channel)
        program = client.compile(SLOW).program_id
        code, _ = refused(lambda: client.execute(program, *SLOW_INPUTS, timeout=0.2))
        assert code == grpc.StatusCode.DEADLINE_EXCEEDED
        assert eventually(lambda: not sessions(own_daemon))
        # The device still works; what comes after waits for it and is right.
        x = np.arange(4, dtype=np.float32)
        (result,) = client.execute(client.compile(negate("4x", "f32")).program_id, x)
        np.testing.assert_array_equal(result, -x)


def test_an_operator_closes_the_session_of_a_call(api, own_daemon):
    with own_daemon.channel() as channel, concurrent.futures.ThreadPoolExecutor(1) as pool:
        client = Client(api, channel)
        program = client.compile(SLOW, name="slow").program_id
        call = pool.submit(lambda: refused(lambda: client.execute(program, *SLOW_INPUTS)))
        assert eventually(lambda: [s["tag"] for s in sessions(own_daemon)] == ["grpc slow"])
        (session,) = sessions(own_daemon)
        assert own_daemon.ctl("sessions", "close", str(session["id"])).returncode == 0
        code, text = call.result(timeout=30)
        assert code == grpc.StatusCode.ABORTED
        assert "closed by an operator" in text
        assert not sessions(own_daemon)


@pytest.mark.parametrize("side", ["sends nothing", "reads nothing"])
def test_an_operator_closes_the_session_of_an_idle_stream(api, daemon, client, side):
    """The daemon waits for the client there, not for a device."""
    request = api.message("ExecuteStreamRequest")
    large = "tensor<9000000xf32>"
    text = f"func.func @main() -> {large} {{ %0 = stablehlo.constant dense<1.0> : {large}\n"
    text += f"return %0 : {large} }}"
    end = threading.Event()

    def messages():
        if side == "sends nothing":
            program = client.compile(negate("4x", "f32"), name="idle").program_id
            inputs = [{"dtype": DTYPES.index(np.float32), "sizes": [4]}]
            yield request(start={"program_id": program, "inputs": inputs})
            end.wait()
        else:
            yield request(start={"program_id": client.compile(text, name="idle").program_id})

    call = api.call(client.channel, "ProgramService.ExecuteStream")(messages(), timeout=120)
    try:
        assert eventually(lambda: [s["tag"] for s in sessions(daemon)] == ["grpc idle"])
        if side == "reads nothing":
            assert next(call).HasField("start")
        (session,) = sessions(daemon)
        assert daemon.ctl("sessions", "close", str(session["id"])).returncode == 0
        assert eventually(lambda: not sessions(daemon))
    finally:
        end.set()
    code, _ = refused(lambda: list(call))
    assert code in (grpc.StatusCode.CANCELLED, grpc.StatusCode.ABORTED)


def test_a_drain_ends_watchers_and_cuts_off_long_calls(api, own_daemon):
    with own_daemon.channel() as channel, concurrent.futures.ThreadPoolExecutor(1) as pool:
        client = Client(api, channel)
        program = client.compile(SLOW).program_id
        watching = client.call("DeviceService.WatchDevices")
        next(watching)
        call = pool.submit(lambda: refused(lambda: client.execute(program, *LONG_INPUTS)))
        assert eventually(lambda: sessions(own_daemon))
        own_daemon.process.terminate()
        with pytest.raises(grpc.RpcError) as error:
            for _ in watching:
                pass
        assert error.value.code() == grpc.StatusCode.UNAVAILABLE
        code, _ = call.result(timeout=30)
        assert code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    own_daemon.process.wait(timeout=60)
    assert not own_daemon.grpc_socket.exists()


def test_an_idle_daemon_ends_cleanly(own_daemon):
    own_daemon.process.terminate()
    assert own_daemon.process.wait(timeout=30) == 0
    assert not own_daemon.grpc_socket.exists()


def test_a_daemon_with_a_busy_device_ends_cleanly(api, own_daemon):
    with own_daemon.channel() as channel, concurrent.futures.ThreadPoolExecutor(1) as pool:
        client = Client(api, channel)
        program = client.compile(SLOW).program_id
        pool.submit(lambda: refused(lambda: client.execute(program, *SLOW_INPUTS)))
        assert eventually(lambda: sessions(own_daemon))
        own_daemon.process.terminate()
    assert own_daemon.process.wait(timeout=60) == 0


def test_calls_keep_a_daemon_from_ending_idle(api, home):
    place = pathlib.Path(tempfile.mkdtemp(dir=home))
    daemon = Daemon(place, "--idle-exit-seconds", "3")
    try:
        with daemon.channel() as channel:
            client = Client(api, channel)
            end = time.monotonic() + 7
            while time.monotonic() < end:
                program = client.compile(negate("4x", "f32")).program_id
        assert program
        assert daemon.process.wait(timeout=60) == 0  # and ends when they stop
    finally:
        daemon.end()
