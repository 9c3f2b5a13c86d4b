"""A clean dispatcher state for tracing, whatever state the op that missed was called in.

The shim calls the tracer from inside a boxed kernel: on autograd threads, under autocast,
inside vmap, under the user's dispatch modes, with Dynamo's frame hook set. None of that may
leak into the trace.
"""

import contextlib
import logging
import threading

import torch
from torch._C._dynamo import eval_frame
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._python_dispatch import _disable_current_modes


def _fresh_keys() -> tuple:
    """The dispatch keys of a thread that has done nothing: this module may be imported inside a
    kernel.
    """
    seen = []

    def look():
        seen.append(torch._C._dispatch_tls_local_include_set())
        seen.append(torch._C._dispatch_tls_local_exclude_set())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return tuple(seen)


_INCLUDE, _EXCLUDE = _fresh_keys()
_log = logging.getLogger("torch._subclasses.fake_tensor")


@contextlib.contextmanager
def _no_dynamo():
    before = eval_frame.set_eval_frame(None)
    try:
        yield
    finally:
        eval_frame.set_eval_frame(before)


@contextlib.contextmanager
def _quiet():
    """A trace that fails is tried again or refused by name: torch's own log of it says nothing to
    the user.
    """
    before = _log.disabled
    _log.disabled = True
    try:
        yield
    finally:
        _log.disabled = before


@contextlib.contextmanager
def clean_state():
    with contextlib.ExitStack() as stack:
        stack.enter_context(_quiet())
        stack.enter_context(_no_dynamo())
        stack.enter_context(torch._C.DisableTorchFunction())
        if torch._C._functorch.peek_interpreter_stack() is not None:
            stack.enter_context(temporarily_clear_interpreter_stack())
        stack.enter_context(torch._C._ForceDispatchKeyGuard(_INCLUDE, _EXCLUDE))
        stack.enter_context(_disable_current_modes())
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.no_grad())
        # Composite ops must reach the recorder whole: the table may know better than their C++
        # composite.
        stack.enter_context(torch._C._AutoDispatchBelowAutograd())
        yield
