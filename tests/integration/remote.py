"""A real daemon on a temporary socket, and a gRPC client made from the .proto files alone."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import time

import grpc
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("NEURON_BUILD_DIR", ROOT / "build" / "dev"))
PLUGIN = os.environ.get("NEURON_PJRT_PLUGIN", ROOT / ".plugin" / "lib" / "pjrt_cpu.so")
CHUNK_BYTES = 512 << 10

# numpy's dtypes in the order of neurond.v1.DType; None: numpy has no such type.
DTYPES = [
    None, np.bool_, np.uint8, np.int8, np.int16, np.uint16, np.int32, np.uint32, np.int64,
    np.uint64, np.float16, None, np.float32, np.float64, np.complex64, np.complex128,
]  # fmt: skip


class Daemon:
    """`neurond` with a directory of its own."""

    def __init__(self, home: pathlib.Path, *flags: str):
        self.home = home
        self.socket = home / "neurond.sock"
        self.grpc_socket = home / "neurond.grpc.sock"
        command = [
            BUILD / "bin" / "neurond", "--socket", self.socket, "--cache-dir", home / "cache",
            "--plugin", PLUGIN, "--devices", "2", "--workers", "1", *flags,
        ]  # fmt: skip
        with (home / "log").open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
            )
        with self.channel() as channel:
            try:
                grpc.channel_ready_future(channel).result(timeout=60)
            except grpc.FutureTimeoutError:
                self.end()
                raise RuntimeError("neurond does not answer: " + self.log()) from None

    def channel(self) -> grpc.Channel:
        return grpc.insecure_channel(f"unix:{self.grpc_socket}")

    def log(self) -> str:
        return (self.home / "log").read_text(errors="replace")

    def ctl(self, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess:
        return ctl(*arguments, address=str(self.grpc_socket), timeout=timeout)

    def stats(self) -> dict:
        return json.loads(self.ctl("stats", "--json").stdout)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def ctl(
    *arguments: str, address: str | None = None, timeout: float = 60, **env
) -> subprocess.CompletedProcess:
    """neuronctl; its exit code is the caller's to judge."""
    environment = os.environ | env
    if address:
        environment["NEURON_RT_GRPC_ADDRESS"] = address
    command = [BUILD / "client" / "cli" / "neuronctl", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)


class Api:
    """Message classes and calls of neurond.v1, from protoc's descriptors."""

    def __init__(self, home: pathlib.Path):
        described = home / "api.binpb"
        files = ["neurond/v1/device_service.proto", "neurond/v1/program_service.proto"]
        files += ["grpc/health/v1/health.proto", "reflection.proto"]
        (home / "reflection.proto").write_text(REFLECTION)
        flags = [f"-I{ROOT / 'proto'}", f"-I{home}", "--include_imports"]
        subprocess.run(["protoc", *flags, f"--descriptor_set_out={described}", *files], check=True)
        self.pool = descriptor_pool.DescriptorPool()
        for file in descriptor_pb2.FileDescriptorSet.FromString(described.read_bytes()).file:
            self.pool.AddSerializedFile(file.SerializeToString())

    def message(self, name: str):
        full = name if "." in name else f"neurond.v1.{name}"
        descriptor = self.pool.FindMessageTypeByName(full)
        return message_factory.GetMessageClass(descriptor)

    def call(self, channel: grpc.Channel, name: str):
        """A callable for "ProgramService.Execute" or, with its package, "grpc...Health.Check"."""
        full = name if name.count(".") > 1 else f"neurond.v1.{name}"
        service, method = full.rsplit(".", 1)
        found = self.pool.FindServiceByName(service).methods_by_name[method]
        request = message_factory.GetMessageClass(found.input_type)
        response = message_factory.GetMessageClass(found.output_type)
        kind = "{}_{}".format(
            "stream" if found.client_streaming else "unary",
            "stream" if found.server_streaming else "unary",
        )
        make = getattr(channel, kind)
        stub = make(
            f"/{service}/{method}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        return (
            stub
            if found.client_streaming
            else lambda timeout=120, **fields: stub(request(**fields), timeout=timeout)
        )


REFLECTION = """
syntax = "proto3";
package grpc.reflection.v1alpha;
// The parts of gRPC's reflection protocol that the tests speak.
message ServerReflectionRequest {
  oneof message_request { string file_containing_symbol = 4; string list_services = 7; }
}
message FileDescriptorResponse { repeated bytes file_descriptor_proto = 1; }
message ServiceResponse { string name = 1; }
message ListServiceResponse { repeated ServiceResponse service = 1; }
message ErrorResponse { int32 error_code = 1; string error_message = 2; }
message ServerReflectionResponse {
  oneof message_response {
    FileDescriptorResponse file_descriptor_response = 4;
    ListServiceResponse list_services_response = 6;
    ErrorResponse error_response = 7;
  }
}
service ServerReflection {
  rpc ServerReflectionInfo(stream ServerReflectionRequest)
      returns (stream ServerReflectionResponse);
}
"""


class Client:
    """compile and execute with numpy arrays."""

    def __init__(self, api: Api, channel: grpc.Channel):
        self.api = api
        self.channel = channel

    def call(self, method: str, /, **fields):
        return self.api.call(self.channel, method)(**fields)

    def compile(self, text: str, name: str = "test", **fields):
        return self.call("ProgramService.Compile", name=name, stablehlo_text=text, **fields)

    def execute(self, program_id: int, *inputs: np.ndarray, device: int = 0, **fields):
        tensors = [
            {"dtype": DTYPES.index(x.dtype.type), "sizes": x.shape, "data": x.tobytes()}
            for x in inputs
        ]
        answer = self.call(
            "ProgramService.Execute", program_id=program_id, device=device, inputs=tensors, **fields
        )
        return [
            np.frombuffer(t.data, DTYPES[t.dtype]).reshape(tuple(t.sizes)) for t in answer.outputs
        ]

    def execute_stream(self, program_id: int, *inputs: np.ndarray, device: int = 0):
        request = self.api.message("ExecuteStreamRequest")
        types = [{"dtype": DTYPES.index(x.dtype.type), "sizes": x.shape} for x in inputs]

        def messages():
            yield request(start={"program_id": program_id, "device": device, "inputs": types})
            for index, x in enumerate(inputs):
                data = memoryview(np.ascontiguousarray(x)).cast("B")
                for offset in range(0, len(data), CHUNK_BYTES):
                    chunk = bytes(data[offset : offset + CHUNK_BYTES])
                    yield request(chunk={"tensor": index, "data": chunk})

        outputs, result_types = [], []
        call = self.api.call(self.channel, "ProgramService.ExecuteStream")
        for answer in call(messages(), timeout=120):
            if answer.HasField("start"):
                result_types = list(answer.start.outputs)
                outputs = [bytearray() for _ in result_types]
            else:
                outputs[answer.chunk.tensor] += answer.chunk.data
        return [
            np.frombuffer(bytes(data), DTYPES[t.dtype]).reshape(tuple(t.sizes))
            for data, t in zip(outputs, result_types, strict=True)
        ]


def eventually(condition, timeout_s: float = 30) -> bool:
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False
