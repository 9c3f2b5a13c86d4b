"""Versions: a write makes the next content of a buffer and never disturbs a reader of the last.

Random programs over views (view_programs.py) equal the CPU on one stream, on several streams that
nobody synchronizes, and on a device with latency, where writers really queue behind readers.
"""

import pytest
import torch

import view_programs
from mirror import counting

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("seed", range(16))
def test_a_random_program_equals_the_cpu(seed):
    view_programs.Program(seed, steps=12).run()


@pytest.mark.parametrize("seed", range(100, 108))
def test_a_random_program_on_three_streams_equals_the_cpu(seed):
    view_programs.Program(seed, steps=12, streams=3).run()


def readers_and_writers(streams: int, rounds: int = 20) -> None:
    """Each round a reader takes the content that the next writer replaces."""
    used = [torch.neuron.Stream() for _ in range(streams)]
    x = torch.zeros(64, 64, device="neuron")
    column = torch.arange(64.0, device="neuron")
    kept, want = [], []
    mirror = torch.zeros(64, 64)
    for i in range(rounds):
        with torch.neuron.stream(used[i % streams]):
            kept.append(x @ torch.eye(64, device="neuron") if i % 3 else x.t().clone())
        want.append(mirror.clone() if i % 3 else mirror.t().clone())
        with torch.neuron.stream(used[(i + 1) % streams]):
            x.add_(1)
            x[:, i % 64] = column
            x.t()[i % 7].mul_(0.5)
        mirror.add_(1)
        mirror[:, i % 64] = torch.arange(64.0)
        mirror.t()[i % 7].mul_(0.5)
    for got, expected in zip(kept, want, strict=True):
        assert torch.equal(got.cpu(), expected)
    assert torch.equal(x.cpu(), mirror)


@pytest.mark.parametrize("streams", [1, 2, 4])
def test_a_writer_never_reaches_an_earlier_reader(streams):
    readers_and_writers(streams)


def test_a_result_that_replaces_its_reader_input_leaves_the_reader_alone():
    # The reader is the only other holder of the old content when the writer comes.
    for _ in range(10):
        x = counting("neuron", 1 << 16)
        before = x * 2
        x.add_(1)
        x = x.mul_(3)
        after = x - 1
        del x
        want = counting("cpu", 1 << 16)
        assert torch.equal(before.cpu(), want * 2)
        assert torch.equal(after.cpu(), (want + 1) * 3 - 1)


def test_a_freed_name_does_not_free_what_a_command_still_reads():
    kept = []
    for i in range(30):
        x = torch.full((256,), float(i), device="neuron")
        with torch.neuron.stream(torch.neuron.Stream()):
            kept.append(x.view(16, 16).t().sum(0))
        del x
    for i, value in enumerate(kept):
        assert value.cpu().tolist() == [16.0 * i] * 16


LATENT = """
import torch
import test_versions, view_programs
test_versions.readers_and_writers(3)
test_versions.test_a_result_that_replaces_its_reader_input_leaves_the_reader_alone()
test_versions.test_a_freed_name_does_not_free_what_a_command_still_reads()
view_programs.run(range(4), streams=2)
"""


@pytest.mark.parametrize("fails_late", ["true", "false"])
def test_the_same_on_a_device_with_latency(fails_late, own_daemon):
    """Every Execute takes longer than its submission: queues are full of readers and writers. A
    device that cannot fail late is given what its queued readers still hold.
    """
    own_daemon.fake().script.write_text("execute * * slow 2\n")
    option = f"--devices 2 --plugin-option fails_late={fails_late}"
    own_daemon.run(LATENT, NEURON_RT_DAEMON_ARGS=option, PYTHONWARNINGS="ignore")
