"""float64 is stored as it is and computed as float32, said once per op; NEURON_FLOAT64=native
computes it with the device's own."""

VALUES = """
import sys, warnings
import torch

def tensors(device, dtype=torch.float64):
    torch.manual_seed(0)
    x, w = torch.randn(5, 7, dtype=torch.float64), torch.randn(7, 3, dtype=torch.float64)
    return [t.to(dtype).to(device).requires_grad_() for t in (x, w)]

def f(x, w):
    scores = torch.softmax(x @ w, -1).log() * torch.exp(x).sum(1, keepdim=True)
    return torch.nn.functional.layer_norm(scores, (3,)).sin().var() + (x / 3).cumsum(1).mean()

def results(function, device, dtype=torch.float64):
    x, w = tensors(device, dtype)
    y = function(x, w)
    y.backward()
    return [t.detach().cpu() for t in (y, x.grad, w.grad)]

eager, compiled = f, torch.compile(f, backend="neuron")
expected = results(f, "cpu")
as_float32 = results(f, "cpu", torch.float32)
"""

AS_FLOAT32 = (
    VALUES
    + """
for function in (eager, compiled):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        got = results(function, "neuron")
        results(function, "neuron")
        torch.neuron.synchronize()
    texts = [str(w.message) for w in seen if "computes float64 as float32" in str(w.message)]
    assert texts and len(texts) == len(set(texts)), texts
    if function is eager:
        assert any("aten::mm " in text for text in texts), texts
        assert any("aten::_softmax_backward_data " in text for text in texts), texts
    assert all("NEURON_FLOAT64=native" in text for text in texts), texts
    for value, single, double in zip(got, as_float32, expected):
        assert value.dtype is torch.float64
        torch.testing.assert_close(value.float(), single, rtol=1e-4, atol=1e-5)
        assert not torch.equal(value, double)

with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    z = torch.ones(3, dtype=torch.complex128).to("neuron")
    assert z.pow(2).pow(2).tolist() == [1] * 3
texts = [str(w.message) for w in seen if "computes float64 as float32" in str(w.message)]
assert len(texts) == 1 and "aten::pow." in texts[0], texts

# Bytes are bytes: nothing is lost where nothing is computed.
x = torch.tensor([0.1, 1e300, -0.0, 2.0**-1074], dtype=torch.float64)
d = x.to("neuron")
for same in (d.cpu(), d.clone().cpu(), d[1:].cpu(), d[2:].clone().cpu()):
    assert same.view(torch.int64).tolist() == x[-same.numel():].view(torch.int64).tolist()
"""
)

NATIVE = (
    VALUES
    + """
for function in (eager, compiled):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = results(function, "neuron")
    for value, double in zip(got, expected):
        torch.testing.assert_close(value, double, rtol=1e-12, atol=1e-12)
"""
)


def test_it_computes_as_float32_and_says_so_once_per_op(run_python):
    run_python(AS_FLOAT32)


def test_native_float64_is_the_devices_own(run_python):
    run_python(NATIVE, NEURON_FLOAT64="native")


def test_the_two_modes_share_no_program(own_daemon):
    code = VALUES + "print(*[t.tolist() for t in results(eager, 'neuron')])"
    first = own_daemon.run(code).stdout
    native = own_daemon.run(code, NEURON_FLOAT64="native").stdout
    assert first != native
    assert own_daemon.run(code).stdout == first
