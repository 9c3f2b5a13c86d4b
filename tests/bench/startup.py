"""Benches of whole processes: a warm start, an idle daemon, a client that is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

from daemon import ROOT, Home, cpu_ticks, rss_mb
from measure import Row

JOB = """
import json, sys, time
start = time.perf_counter()
sys.path.insert(0, sys.argv[1])
import torch, zoo
job = zoo.gpt()
model = job.model.to("neuron")
imported = time.perf_counter()
batch = {name: tensor.to("neuron") for name, tensor in job.batch.items()}
loss = torch.compile(lambda batch: job.step(model, batch)[1], backend="neuron")(batch)
loss.backward()
loss.item()
print(json.dumps({"import": imported - start, "step": time.perf_counter() - imported}))
"""
IDLE = """
import sys, torch
print((torch.ones(4, device='neuron') + 1).sum().item(), flush=True)
sys.stdin.read()
"""

KILLED_MB = 256
KILLED = f"""
import os, sys, torch
x = torch.ones({KILLED_MB} << 18, device='neuron')
x.add_(1)[0].item()
child = os.fork()
if child == 0:
    os.read(0, 1)
    os._exit(0)
print(child, flush=True)
sys.stdin.read()
"""


def _job(home: Home) -> dict:
    answer = subprocess.run(
        [sys.executable, "-c", JOB, ROOT / "tests" / "models"],
        env=home.env,
        capture_output=True,
        text=True,
        timeout=600,
    )
    if answer.returncode != 0:
        raise RuntimeError(answer.stderr[-2000:])
    return json.loads(answer.stdout.splitlines()[-1])


def _client(own: Home, program: str) -> subprocess.Popen:
    """A process that prints one line and lives until its input ends."""
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env=own.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def warm(home: Home) -> list[Row]:
    """Import to the end of the first compiled forward and backward, in a second process."""
    own = Home()
    try:
        cold, second = _job(own), _job(own)
    finally:
        own.close()
    return [
        Row(
            "warm",
            "second process, import to first compiled step, against the first",
            "s",
            sum(second.values()),
            sum(cold.values()),
            note=f"of it {second['step']:.2f} s for the step, {cold['step']:.2f} s when cold",
        )
    ]


def idle(home: Home) -> list[Row]:
    """A daemon with one idle client: CPU ticks in 5 s, and resident memory."""
    own = Home()
    client = _client(own, IDLE)
    try:
        if client.stdout.readline().strip() != "8.0":
            raise RuntimeError("the idle client did not come up")
        pid = own.pid()
        time.sleep(1)
        before = cpu_ticks(pid)
        time.sleep(5)
        ticks, memory = cpu_ticks(pid) - before, rss_mb(pid)
    finally:
        client.stdin.close()
        client.wait(timeout=30)
        own.close()
    return [
        Row("idle", "CPU ticks in 5 s, one idle client", "ticks", ticks, aim="0", met=ticks == 0),
        Row("idle", "resident memory", "MB", memory, aim="<= 120 MB", met=memory <= 120),
    ]


def killed(home: Home) -> list[Row]:
    """From `kill -9` of a client, whose forked child lives on, until its memory is free again."""
    own = Home()
    times = []
    try:
        for _ in range(5):
            times.append(_time_to_free(own))
    finally:
        own.close()
    worst = max(times)
    what = f"kill -9 to {KILLED_MB} MiB free again, a forked child lives, worst of 5"
    return [Row("killed", what, "ms", worst, aim="<= 1000 ms", met=worst <= 1000)]


def _time_to_free(own: Home) -> float:
    """Milliseconds; one look at the daemon takes some of them."""
    client = _client(own, KILLED)
    child = None
    try:
        child = int(client.stdout.readline())
        if _held(own) < KILLED_MB << 20:
            raise RuntimeError("the client holds no memory")
        start = time.perf_counter()
        client.kill()
        while _held(own):
            pass
        milliseconds = 1e3 * (time.perf_counter() - start)
        os.kill(child, 0)  # raises unless it lived until here
        return milliseconds
    finally:
        client.kill()
        client.wait(timeout=30)
        if child is not None:
            os.kill(child, signal.SIGKILL)


def _held(own: Home) -> int:
    """Bytes of the devices that are used or promised to clients."""
    devices = own.neuronctl("stats")["devices"]
    return sum(d["physical_bytes"] + d["granted_bytes"] for d in devices)
