"""Failures that only the device sees: raised at the next synchronizing call, once, oldest first,
with op, inputs, device and the user's line; nothing but their dependents is lost."""

ONCE = """
import torch
from fault_kit import nothing_left, raises, script

x = torch.arange(6.0, device="neuron").reshape(2, 3)
b = torch.ones(3, device="neuron")
stream = torch.accelerator.current_stream()

def synchronizing(y):
    event = torch.Event(device="neuron")
    event.record()
    return {
        "stream": stream.synchronize,
        "device": torch.neuron.synchronize,
        "accelerator": torch.accelerator.synchronize,
        "event": event.synchronize,
        "item": lambda: y[0, 0].item(),
        "cpu": y.cpu,
        "tolist": y.tolist,
        "dependent": lambda: (y + 1).sum().item(),
        "unrelated read": x.cpu,
    }

def user_function():
    return x * b  # MARK

for name in synchronizing(x):
    script("execute aten.mul.Tensor 1 fail-late the device fell over")
    y = user_function()
    good = x + b
    with raises(RuntimeError, "the device fell over", "aten.mul.Tensor", "float32[2, 3]",
                "float32[3]", "neuron:0", "program.py", "in user_function", "# MARK"):
        synchronizing(y)[name]()
    script("")
    nothing_left()
    assert good.tolist() == [[1, 2, 3], [4, 5, 6]], name
"""


def test_every_synchronizing_call_raises_it_once_with_op_and_line(run_faulty):
    run_faulty(ONCE)


ORDER = """
import torch
from fault_kit import nothing_left, raises, script

x = torch.arange(6.0, device="neuron").reshape(2, 3)
b = torch.ones(3, device="neuron")
script("execute aten.mul.Tensor 1 fail-late first; execute aten.add.Tensor 1 fail-late second;"
       "execute aten.sub.Tensor 1 fail-late third")
x * b, x + b, x - b
for text in ("first", "second", "third"):
    with raises(RuntimeError, text):
        torch.neuron.synchronize()
nothing_left()

# Reading a failed tensor raises its own failure, whatever is older.
script("execute aten.mul.Tensor 1 fail-late first; execute aten.add.Tensor 1 fail-late second")
p, q = x * b, x + b
with raises(RuntimeError, "second"):
    q.cpu()
with raises(RuntimeError, "first"):
    torch.neuron.synchronize()
nothing_left()

# An event covers what came before it.
script("execute aten.mul.Tensor 1 fail-late early; execute aten.sub.Tensor 1 fail-late late")
before = torch.Event(device="neuron")
before.record()
x * b
event = torch.Event(device="neuron")
event.record()
x - b
before.synchronize()
with raises(RuntimeError, "early"):
    event.synchronize()
event.synchronize()
with raises(RuntimeError, "late"):
    torch.neuron.synchronize()

# Other streams and devices are not asked.
script("execute aten.mul.Tensor 1 fail-late elsewhere")
stream = torch.Stream(device="neuron")
with stream:
    x * b
torch.accelerator.current_stream().synchronize()
torch.neuron.synchronize("neuron:1")
with raises(RuntimeError, "elsewhere"):
    stream.synchronize()
script("execute aten.mul.Tensor 1 fail-late on the other device")
with torch.neuron.device(1):
    torch.ones(2, device="neuron:1") * torch.ones(2, device="neuron:1")
torch.neuron.synchronize("neuron:0")
with raises(RuntimeError, "on the other device", "neuron:1"):
    torch.neuron.synchronize("neuron:1")
script("")
nothing_left()
"""


def test_oldest_first_and_only_in_scope(run_faulty):
    run_faulty(ORDER)


DEPENDENTS = """
import torch
from fault_kit import nothing_left, raises, script

x = torch.arange(6.0, device="neuron").reshape(2, 3)
b = torch.ones(3, device="neuron")
kept = torch.ones(2, 3, device="neuron")
script("execute aten.mul.Tensor 1 fail-late root")
p = x * b  # MARK
q = p + 1
r = q @ torch.ones(3, 2, device="neuron")
kept.add_(q)
kept[0].sub_(1)
far = r.to("neuron:1")
with raises(RuntimeError, "root", "aten.mul.Tensor", "# MARK"):
    r.sum().item()
nothing_left()
# What never had another value stays the same failure; what had one has it again.
for failed in (p, q, r, far):
    with raises(RuntimeError, "root", "aten.mul.Tensor", "# MARK"):
        failed.cpu()
    nothing_left()
assert kept.tolist() == [[1, 1, 1], [1, 1, 1]]
kept.add_(x)
assert kept.tolist() == [[1, 2, 3], [4, 5, 6]]
"""


def test_dependents_carry_the_same_error_and_buffers_go_back(run_faulty):
    run_faulty(DEPENDENTS)


KINDS = """
import torch
from fault_kit import nothing_left, raises, script

x = torch.arange(6.0, device="neuron").reshape(2, 3)
b = torch.ones(3, device="neuron")

def fails(rules, kind, call, *parts):
    script(rules)
    with raises(kind, "# MARK", *parts):
        call()  # MARK
        torch.neuron.synchronize()
    script("")
    nothing_left()
    assert (x * b + x).sum().item() == 30

mul = "execute aten.mul.Tensor 1 "
OOM = torch.OutOfMemoryError
fails(mul + "fail no way", RuntimeError, lambda: x * b, "no way")  # MARK
fails(mul + "fail-late no way", RuntimeError, lambda: x * b, "no way")  # MARK
fails(mul + "oom", OOM, lambda: x * b, "aten.mul.Tensor")  # MARK
fails(mul + "oom-late", OOM, lambda: x * b, "aten.mul.Tensor")  # MARK
uploaded = lambda: torch.ones(3).to("neuron")  # MARK
fails("upload * 1 fail no upload", RuntimeError, uploaded, "no upload")
fails("upload * 1 oom", OOM, uploaded)
fails("download * 1 fail no download", RuntimeError, lambda: x.cpu(), "no download")  # MARK
fails("download * 1 fail-late no download", RuntimeError, lambda: x.cpu(), "no download")  # MARK
copied = lambda: x.to("neuron:1").cpu()  # MARK
fails("copy * 1 fail no copy", RuntimeError, copied, "no copy")  # MARK
fails("copy * 1 fail-late no copy", RuntimeError, copied, "no copy")  # MARK
fails("load aten.cosh* * fail no load", RuntimeError, x.cosh, "no load", "aten.cosh")  # MARK
fails("compile aten.sinh* * fail bad", RuntimeError, x.sinh, "bad", "aten.sinh")  # MARK
fails("compile aten.tan.* * crash", RuntimeError, x.tan, "crashed", "aten.tan")  # MARK
assert torch.allclose(x.atan().cpu(), x.cpu().atan())
"""


def test_each_kind_of_failure_is_named(run_faulty):
    run_faulty(KINDS)


BACKWARD = """
import torch
from fault_kit import nothing_left, raises, script

w = torch.ones(4, 3, device="neuron", requires_grad=True)
index = torch.tensor([0, 3], device="neuron")

def forward():
    picked = torch.nn.functional.embedding(index, w)  # EMBEDDING
    hidden = picked @ torch.ones(3, 5, device="neuron")  # MATMUL
    return hidden.sinh().sum()  # SINH

forward().backward()
torch.neuron.synchronize()
for rule, mark in (("aten.embedding_dense_backward*", "# EMBEDDING"), ("aten.mm*", "# MATMUL"),
                   ("aten.cosh*", "# SINH")):
    w.grad = None
    loss = forward()
    torch.neuron.synchronize()
    script(f"execute {rule} 1 fail-late the gradient fell")
    loss.backward()
    with raises(RuntimeError, "the gradient fell", rule.strip("*"), "in forward", mark):
        torch.neuron.synchronize()
    script("")
    nothing_left()
    with raises(RuntimeError, "the gradient fell", mark):
        w.grad.cpu()
"""


def test_a_backward_failure_names_the_forward_line(run_faulty):
    run_faulty(BACKWARD)


GRAPH = """
import torch
from fault_kit import nothing_left, raises, script

x = torch.arange(6.0, device="neuron").reshape(2, 3)

def f(x, i):
    y = x.sinh()
    return (y + 1)[i]  # INDEX

g = torch.compile(f, backend="neuron")
i = torch.tensor([1], device="neuron")
assert torch.allclose(g(x, i).cpu(), f(x.cpu(), i.cpu()))
script("execute * 1 fail-late the graph fell")
g(x, i)
with raises(RuntimeError, "the graph fell", "float32[2, 3]", "neuron:0", "in f", "program.py"):
    torch.neuron.synchronize()
script("")
nothing_left()
bad = g(x, torch.tensor([7], device="neuron"))
with raises(IndexError, "index 7 is out of bounds for dimension 0 with size 2", "# INDEX"):
    torch.neuron.synchronize()
with raises(IndexError, "index 7 is out of bounds"):
    bad.cpu()
nothing_left()
assert torch.allclose(g(x, i).cpu(), f(x.cpu(), i.cpu()))

def h(x, w):
    return torch.nn.functional.embedding(x, w).sinh().sum()  # FORWARD
w = torch.ones(4, 3, device="neuron", requires_grad=True)
loss = torch.compile(h, backend="neuron")(i, w)
torch.neuron.synchronize()
script("execute * 2 fail-late the backward graph fell")  # the first fills the root gradient
loss.backward()
with raises(RuntimeError, "the backward graph fell", "# FORWARD"):
    torch.neuron.synchronize()
"""


def test_a_compiled_graph_names_its_lines(run_faulty):
    run_faulty(GRAPH)


TRAIN = """
import copy
import torch
from fault_kit import nothing_left, raises, script

def trainer(model, make, compiled):
    optimizer = make(model.parameters())
    def loss_of(x, t):
        return torch.nn.functional.mse_loss(model(x), t)
    if compiled:
        loss_of = torch.compile(loss_of, backend="neuron")
    def step(x, t):
        optimizer.zero_grad()
        loss = loss_of(x, t)
        loss.backward()
        optimizer.step()
        return loss
    return step

def values(model):
    return {name: value.cpu() for name, value in model.state_dict().items()}

def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)

def train(make, compiled, rule, exact):
    torch.manual_seed(0)
    layers = torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)
    model = torch.nn.Sequential(*layers).to("neuron")
    twin = copy.deepcopy(model)
    data = [(torch.randn(5, 8, device="neuron"), torch.randn(5, 4, device="neuron"))
            for _ in range(6)]
    step, twin_step = trainer(model, make, compiled), trainer(twin, make, compiled)
    for batch in data[:3]:
        step(*batch), twin_step(*batch)
    before = values(model)
    script(f"execute {rule} fail-late the step fell")
    step(*data[3])
    with raises(RuntimeError, "the step fell"):
        torch.neuron.synchronize()
    script("")
    nothing_left()
    assert same(values(model), before)
    for batch in data[4:]:
        step(*batch), twin_step(*batch)
    assert not same(values(model), before)
    if exact:  # nothing but the parameters remembers a step
        assert same(values(model), values(twin))

sgd = lambda p: torch.optim.SGD(p, lr=0.1)
adam = lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0)
fused = lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True)
train(sgd, False, "aten.tanh.* 1", True)
train(sgd, False, "aten._foreach_add_* 1", True)
train(sgd, True, "* 1", True)
train(adam, False, "aten.tanh.* 1", False)
train(fused, False, "aten.addmm* 2", False)
"""


def test_parameters_survive_a_failed_step_and_training_goes_on(run_faulty):
    run_faulty(TRAIN)
