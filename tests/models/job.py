"""One process's work for test_cache.py: trains a model and prints a JSON line of what it took.

python job.py MODEL eager|compiled STEPS
"""

from __future__ import annotations

import json
import os
import sys

import torch

import training
import zoo


def traces() -> int:
    """How often this process's miss path ran Python to trace an op or a graph."""
    from torch_neuronx import metrics

    return int(metrics.get_counter_value("neuron.traces") or 0)


def main() -> None:
    name, mode, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    device = torch.device(os.environ.get("NEURON_TEST_DEVICE", "neuron"))
    trace = training.train(zoo.MODELS[name](), device, mode == "compiled", steps)
    answer = {"losses": trace.losses}
    if device.type == "neuron":
        import torch_neuronx

        answer["fallbacks"] = sorted(set(torch_neuronx.get_fallback_ops()))
        answer["traces"] = traces()
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
