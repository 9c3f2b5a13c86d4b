"""One process's work for test_cache.py: trains models and prints a JSON line per model.

python job.py eager|compiled STEPS MODEL...

A line: {"model", "losses", "fallbacks", "traces", "lowerings", "compiles"}; traces are this
process's own, lowerings and compiles what the daemon did meanwhile, for whatever client.
"""

from __future__ import annotations

import json
import os
import sys
import time

import torch

import daemon
import training
import zoo


def traces() -> int:
    """How often this process's miss path ran Python to trace an op or a graph."""
    from torch_neuronx import metrics

    return int(metrics.get_counter_value("neuron.traces") or 0)


def work() -> dict[str, int]:
    return {"traces": traces(), **daemon.counters(os.environ)}


def main() -> None:
    mode, steps, names = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    device = torch.device("neuron")
    torch.ones(1, device=device).cpu()  # the daemon is there
    for name in names:
        before, start = work(), time.perf_counter()
        trace = training.train(zoo.MODELS[name](), device, mode == "compiled", steps)
        seconds = time.perf_counter() - start
        import torch_neuronx

        answer = {"model": name, "losses": trace.losses, "seconds": seconds}
        answer |= {key: n - before[key] for key, n in work().items()}
        answer["fallbacks"] = sorted(set(torch_neuronx.get_fallback_ops()))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
