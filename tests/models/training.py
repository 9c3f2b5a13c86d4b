"""Trains a Job for some AdamW steps and keeps what a comparison needs."""

from __future__ import annotations

import dataclasses

import torch

import zoo

# eps is so large that an element whose true gradient is zero does not turn rounding noise into a
# whole step.
ADAMW = {"lr": 1e-2, "eps": 1e-4, "weight_decay": 0.01}


@dataclasses.dataclass
class Trace:
    """All on the CPU. losses: one per step; outputs and gradients: of the first step; state: after
    the last."""

    outputs: torch.Tensor
    losses: list[float]
    gradients: dict[str, torch.Tensor]
    state: dict[str, torch.Tensor]


def compile_model(model: torch.nn.Module, device: torch.device):
    torch._dynamo.reset()
    return torch.compile(
        model, backend="neuron" if device.type == "neuron" else "aot_eager", fullgraph=True
    )


def train(
    job: zoo.Job, device: torch.device, compiled: bool = False, steps: int = 3, **optimizer
) -> Trace:
    """Moves the job's model to `device` and trains it there."""
    model = job.model.to(device)
    batch = {name: tensor.to(device) for name, tensor in job.batch.items()}
    call = compile_model(model, device) if compiled else model
    adamw = torch.optim.AdamW(model.parameters(), **{**ADAMW, **optimizer})
    outputs, gradients, losses = None, {}, []
    for step in range(steps):
        adamw.zero_grad()
        answer, loss = job.step(call, batch)
        loss.backward()
        if step == 0:
            outputs = answer.detach().cpu()
            gradients = {name: p.grad.cpu().clone() for name, p in model.named_parameters()}
        adamw.step()
        losses.append(loss.item())
    state = {name: tensor.cpu().clone() for name, tensor in model.state_dict().items()}
    return Trace(outputs, losses, gradients, state)


def assert_same(got: Trace, want: Trace, rtol: float = 2e-3, atol: float = 3e-4) -> None:
    """Every value of two trainings, float32 on two devices: equal within rtol and atol."""

    def close(a, b, what):
        torch.testing.assert_close(
            torch.as_tensor(a),
            torch.as_tensor(b),
            rtol=rtol,
            atol=atol,
            msg=lambda text: f"{what}: {text}",
        )

    close(got.outputs, want.outputs, "outputs")
    assert got.gradients.keys() == want.gradients.keys()
    for name, gradient in want.gradients.items():
        close(got.gradients[name], gradient, f"gradient of {name}")
    for step, (a, b) in enumerate(zip(got.losses, want.losses, strict=True)):
        close(a, b, f"loss of step {step}")
    assert got.state.keys() == want.state.keys()
    for name, value in want.state.items():
        close(got.state[name], value, f"{name} after {len(want.losses)} steps")
