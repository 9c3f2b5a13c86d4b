"""Storage is PyTorch's bytes: save, load, deepcopy, resize, set_, aliasing, pinned memory."""

import copy
import io
import pickle

import pytest
import torch


def test_save_and_load():
    x = torch.arange(6.0, device="neuron").reshape(2, 3)
    file = io.BytesIO()
    torch.save({"a": x, "b": x[1]}, file)
    file.seek(0)
    back = torch.load(file)
    assert back["a"].device.type == "neuron"
    assert torch.equal(back["a"].cpu(), x.cpu())
    back["b"].add_(10)  # still a view of a
    assert back["a"][1].cpu().tolist() == [13.0, 14.0, 15.0]
    for where in ("cpu", "neuron", "neuron:0"):
        file.seek(0)
        there = torch.load(file, map_location=where)["a"]
        assert there.device.type == where.split(":")[0]
        assert torch.equal(there.cpu(), x.cpu())


def test_pickle_and_the_old_file_format():
    x = torch.arange(6.0, device="neuron").reshape(2, 3)
    for value in (x, x[:, 1:], x.to(torch.float64), torch.nn.Parameter(x.half())):
        file = io.BytesIO()
        torch.save(value, file, _use_new_zipfile_serialization=False)
        file.seek(0)
        for got in (pickle.loads(pickle.dumps(value)), torch.load(file)):
            assert type(got) is type(value) and got.device == value.device
            assert got.dtype == value.dtype and got.stride() == value.stride()
            assert got.tolist() == value.tolist()
        file.seek(0)
        assert torch.load(file, map_location="cpu").device.type == "cpu"


def test_deepcopy_keeps_sharing():
    x = torch.arange(4.0, device="neuron")
    a, b = copy.deepcopy((x, x[2:]))
    a[2] = 7
    assert b[0].item() == 7
    assert x[2].item() == 2


def test_float64_keeps_its_bytes():
    x = torch.tensor([1.0 + 1e-12, 2.0], dtype=torch.float64)
    y = x.neuron()
    assert y.untyped_storage().nbytes() == 16
    assert torch.equal(y.cpu(), x)
    assert torch.equal(copy.deepcopy(y).cpu(), x)
    assert torch.equal(y.view(torch.int64).cpu(), x.view(torch.int64))


def test_resize_keeps_the_content():
    x = torch.arange(3.0, device="neuron")
    x.resize_(5)
    assert x.cpu()[:3].tolist() == [0.0, 1.0, 2.0]
    x.resize_(2)
    assert x.cpu().tolist() == [0.0, 1.0]


def test_set_and_aliases():
    x, y = torch.zeros(3, device="neuron"), torch.arange(4.0, device="neuron")
    x.set_(y)
    x.add_(1)
    assert y.cpu().tolist() == [1.0, 2.0, 3.0, 4.0]
    assert x.data_ptr() == y.data_ptr() != 0
    assert y[1:].data_ptr() == y.data_ptr() + 4


def test_data_assignment_between_devices_keeps_the_parameter():
    p = torch.nn.Parameter(torch.ones(2))
    name = id(p)
    p.data = p.data.neuron()
    assert id(p) == name
    assert p.device.type == "neuron"


def test_tied_weights_and_an_early_optimizer_survive_to():
    a, b = torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False)
    b.weight = a.weight
    model = torch.nn.Sequential(a, b)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to("neuron")
    assert b.weight is a.weight
    before = a.weight.detach().cpu().clone()
    model(torch.ones(2, 3, device="neuron")).sum().backward()
    optimizer.step()
    assert not torch.equal(before, a.weight.detach().cpu())
    model.cpu()
    assert a.weight.device.type == "cpu"
    assert b.weight is a.weight


def test_pinned_memory():
    x = torch.arange(4.0).pin_memory()
    assert x.is_pinned()
    assert torch.equal(x.to("neuron", non_blocking=True).cpu(), x)


def test_print_and_numpy():
    x = torch.arange(3.0, device="neuron")
    assert "device='neuron:0'" in repr(x)
    with pytest.raises(TypeError):
        x.numpy()


def test_dlpack_says_what_to_do():
    with pytest.raises(BufferError, match="cpu"):
        torch.ones(2, device="neuron").__dlpack_device__()


def test_is_set_to():
    x = torch.arange(6.0, device="neuron")
    assert x.is_set_to(x.view(6)) and x[1:].is_set_to(x[1:])
    for other in (x.clone(), x.view(2, 3), x[:5], torch.empty(0, device="neuron")):
        assert not x.is_set_to(other)
    assert x[:5].is_set_to(x[0:5]) and not x[:5].is_set_to(x[1:])
