"""Benches of whole processes: a warm start, and a daemon that has nothing to do."""

from __future__ import annotations

import json
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
    client = subprocess.Popen(
        [sys.executable, "-c", IDLE],
        env=own.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
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
