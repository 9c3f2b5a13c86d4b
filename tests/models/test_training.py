"""Forward, backward and three AdamW steps against the CPU, eager and compiled, no fallback."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import training
import zoo

CPU = torch.device("cpu")
MODES = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])


@pytest.fixture(scope="module")
def reference():
    """Model name -> the CPU's Trace, made once."""
    made = {}

    def trace(name: str) -> training.Trace:
        if name not in made:
            made[name] = training.train(zoo.MODELS[name](), CPU)
        return made[name]

    return trace


@MODES
@pytest.mark.parametrize("name", zoo.MODELS)
def test_trains_like_the_cpu(name, compiled, device, reference):
    got = training.train(zoo.MODELS[name](), device, compiled)
    training.assert_same(got, reference(name))


@pytest.mark.parametrize("kind", ["foreach", "fused", "capturable", "loop"])
def test_every_adamw_trains_like_the_cpu(kind, device, reference):
    if kind == "capturable" and device.type == "cpu":
        pytest.skip("PyTorch has no capturable AdamW on the CPU")
    optimizer = {"foreach": False} if kind == "loop" else {kind: True}
    got = training.train(zoo.mlp(), device, **optimizer)
    training.assert_same(got, reference("mlp"))


def test_the_comparison_notices_a_wrong_step(reference):
    wrong = training.train(zoo.mlp(), CPU, lr=1.1e-2)
    with pytest.raises(AssertionError, match="loss of step 1"):
        training.assert_same(wrong, reference("mlp"))
    wrong.losses = reference("mlp").losses
    with pytest.raises(AssertionError, match="after 3 steps"):
        training.assert_same(wrong, reference("mlp"))


@MODES
def test_evaluation_after_training_uses_the_running_statistics(compiled, device):
    def evaluate(where, compile_it):
        job = zoo.cnn()
        training.train(job, where, compile_it)
        job.model.eval()
        call = training.compile_model(job.model, where) if compile_it else job.model
        with torch.no_grad():
            return call(job.batch["x"].to(where)).cpu()

    torch.testing.assert_close(
        evaluate(device, compiled), evaluate(CPU, False), rtol=2e-3, atol=5e-4
    )


@pytest.mark.parametrize("name", ["gpt", "gpt2", "llama"])
def test_tied_weights_stay_tied_after_to(name, device):
    job = zoo.MODELS[name]()
    before = sum(1 for _ in job.model.parameters())
    model = job.model.to(device)
    names = [n for n, _ in model.named_parameters(remove_duplicate=False)]
    assert len(names) > before, "this model ties nothing, so the test proves nothing"
    assert sum(1 for _ in model.parameters()) == before
    if name == "gpt":
        tokens, head = model.tokens.weight, model.head.weight
    else:
        tokens, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    assert tokens is head and tokens.device.type == device.type
    with torch.no_grad():
        tokens[1] = 7.0
    assert torch.equal(head[1].cpu(), torch.full((head.shape[1],), 7.0))


def test_an_optimizer_made_before_the_move_trains_the_moved_weights(device):
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model.to(device)
    before = model.weight.detach().cpu().clone()
    model(torch.ones(2, 4, device=device)).sum().backward()
    optimizer.step()
    torch.testing.assert_close(model.weight.detach().cpu(), before - 0.5 * 2.0)
