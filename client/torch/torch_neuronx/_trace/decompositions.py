"""The decomposition table that eager ops and compiled graphs share: everything becomes core ATen,
prims and our own ops.

Order: our own rules, then the ops that stay whole since the lowering has them, torch's core
table, the composite implementation, and for ops outside core ATen whatever decomposition torch
has.
"""

import functools

import torch
from torch._decomp import core_aten_decompositions, decomposition_table

from . import layout, rng, transformer, twins
from .device import is_ours
from .errors import Refused
from .kept import KEPT

aten = torch.ops.aten
prims = torch.ops.prims


def _overload(name: str):
    packet, overload = name.split(".")
    return getattr(getattr(aten, packet), overload)


def _convolution_overrideable(
    x, weight, bias, stride, padding, dilation, transposed, output_padding, groups
):
    return aten.convolution.default(
        x, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )


def _convolution_backward_overrideable(
    grad, x, weight, stride, padding, dilation, transposed, output_padding, groups, output_mask
):
    bias_sizes = [weight.shape[1] * groups if transposed else weight.shape[0]]
    return aten.convolution_backward.default(
        grad,
        x,
        weight,
        bias_sizes,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        output_mask,
    )


def _zeros(size, order, dtype, device):
    """Memory that nobody wrote reads as zeros, never as another's bytes."""
    dtype = torch.get_default_dtype() if dtype is None else dtype
    return layout.make(
        size, order, lambda size: aten.full.default(size, 0, dtype=dtype, device=device)
    )


def _empty(size, dtype=None, device=None, memory_format=None, **_):
    return _zeros(size, layout.order_in(len(size), memory_format), dtype, device)


def _empty_permuted(size, order, dtype=None, device=None, **_):
    return _zeros(size, order, dtype, device)


def _empty_strided(size, stride, dtype=None, device=None, **_):
    order = sorted(range(len(size)), key=lambda i: (stride[i], size[i]), reverse=True)
    return _zeros(size, order, dtype, device)


def _like(x, dtype, device) -> tuple:
    return x.dtype if dtype is None else dtype, x.device if device is None else device


def _empty_like(x, dtype=None, device=None, memory_format=None, **_):
    return _zeros(x.shape, layout.order_of(x, memory_format), *_like(x, dtype, device))


def _new_empty(x, size, dtype=None, device=None, **_):
    return _zeros(size, range(len(size)), *_like(x, dtype, device))


def _new_empty_strided(x, size, stride, dtype=None, device=None, **_):
    dtype, device = _like(x, dtype, device)
    return _empty_strided(size, stride, dtype, device)


def _polar(magnitude, angle):
    parts = [aten.mul.Tensor(magnitude, f(angle)) for f in (aten.cos.default, aten.sin.default)]
    return aten.complex.default(*parts)


def _multilabel_margins(x, target):
    """Of each place and class: the place's class, the margin that counts (else 0); the targets."""
    classes = x.shape[-1]
    place = aten.arange.default(classes, device=x.device)
    ends = aten.where.ScalarOther(aten.eq.Scalar(target, -1), place, classes)
    listed = aten.lt.Tensor(place, aten.amin.default(ends, [-1], True))
    named = aten.where.ScalarOther(listed, target, -1)
    of_class = aten.eq.Tensor(aten.unsqueeze.default(named, -1), place)
    is_target = aten.any.dim(of_class, -2)
    chosen = aten.gather.default(x, -1, aten.where.ScalarOther(listed, target, 0))
    margins = aten.rsub.Scalar(
        aten.sub.Tensor(aten.unsqueeze.default(chosen, -1), aten.unsqueeze.default(x, -2)), 1.0
    )
    counted = aten.logical_and.default(
        aten.unsqueeze.default(listed, -1),
        aten.logical_not.default(aten.unsqueeze.default(is_target, -2)),
    )
    terms = aten.where.ScalarOther(counted, aten.clamp_min.default(margins, 0), 0.0)
    return of_class, terms, is_target


def _multilabel_margin_loss(x, target, reduction):
    """torch's own counts what stands after the first -1 as targets of class 0."""
    _, terms, is_target = _multilabel_margins(x, target)
    loss = aten.div.Tensor(aten.sum.dim_IntList(terms, [-2, -1]), x.shape[-1])
    if reduction != 0:
        loss = (aten.mean if reduction == 1 else aten.sum).default(loss)
    return loss, prims.convert_element_type.default(is_target, x.dtype)


def _multilabel_margin_loss_backward(grad, x, target, reduction, is_target):
    of_class, terms, _ = _multilabel_margins(x, target)
    active = prims.convert_element_type.default(aten.gt.Scalar(terms, 0), x.dtype)
    pulled = aten.mul.Tensor(of_class, aten.sum.dim_IntList(active, [-1], True))
    slope = aten.sum.dim_IntList(aten.sub.Tensor(active, pulled), [-2])
    count = x.shape[-1] * (x.shape[0] if reduction == 1 and x.dim() == 2 else 1)
    if grad.dim() == 1 and x.dim() == 2:
        grad = aten.unsqueeze.default(grad, -1)
    return aten.mul.Tensor(aten.div.Tensor(slope, count), grad)


def _replace_autograd_rule() -> None:
    """torch applies its own rule above autograd, where tracing meets it before our table."""
    op, key = aten.multilabel_margin_loss_forward.default, torch._C.DispatchKey.Autograd
    torchs_own = op.py_kernels.pop(key)

    @op.py_impl(key)
    def _(x, target, reduction):
        ours = is_ours(x.device) and x.shape == target.shape  # (torch's own words for an error)
        return (_multilabel_margin_loss if ours else torchs_own)(x, target, reduction)


_replace_autograd_rule()


def _copy(x, src, non_blocking=False):
    """What comes from the other side is moved first: programs and eager steps know one device."""
    if src.device == x.device:
        return NotImplemented
    return aten.copy.default(x, aten._to_copy.default(src, device=x.device))


def _fma(a, b, c):
    return aten.add.Tensor(aten.mul.Tensor(a, b), c)


def _weight_norm_backward(grad, v, g, norms, dim):
    others = [d for d in range(v.dim()) if d != dim]
    along = aten.mul.Tensor(grad, v)
    along = aten.sum.dim_IntList(along, others, True, dtype=norms.dtype) if others else along
    back = aten.mul.Tensor(v, aten.div.Tensor(along, aten.mul.Tensor(norms, norms)))
    grad_v = aten.mul.Tensor(aten.div.Tensor(g, norms), aten.sub.Tensor(grad, back))
    grad_g = aten.div.Tensor(along, norms)
    return tuple(
        prims.convert_element_type.default(value, like.dtype)
        for value, like in ((grad_v, v), (grad_g, g))
    )


# The cells that torch selects for this device are kernels of csrc made of ordinary ops.
_CELLS = (
    aten._thnn_fused_lstm_cell.default,
    aten._thnn_fused_lstm_cell_backward_impl.default,
    aten._thnn_fused_gru_cell.default,
    aten._thnn_fused_gru_cell_backward.default,
)


def _run_kernel(op, *args, **kwargs):
    return op._op_dk(torch._C.DispatchKey.PrivateUse1, *args, **kwargs)


def _foreach(op, *args, **kwargs):
    try:
        return twins.run(op, args, kwargs, None)
    except Refused:  # (the daemon refuses it by its name)
        return NotImplemented


def _foreach_rules() -> dict:
    """Compiled optimizers hold `_foreach_*` ops: one op per tensor, as in eager programs."""
    table = {}
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::_foreach_"):
            packet, _, overload = name.removeprefix("aten::").partition(".")
            op = getattr(getattr(aten, packet), overload or "default")
            if not op._schema.is_mutable:
                table[op] = functools.partial(_foreach, op)
    return table


def _own_rules() -> dict:
    table = rng.rules() | _foreach_rules()
    table[aten.convolution_overrideable.default] = _convolution_overrideable
    table[aten.convolution_backward_overrideable.default] = _convolution_backward_overrideable
    table[aten.polar.default] = _polar
    table[aten._weight_norm_interface_backward.default] = _weight_norm_backward
    table |= {op: functools.partial(_run_kernel, op) for op in _CELLS}
    table[aten.multilabel_margin_loss_forward.default] = _multilabel_margin_loss
    table[aten.multilabel_margin_loss_backward.default] = _multilabel_margin_loss_backward
    table[aten._native_multi_head_attention.default] = transformer.multi_head_attention
    table[aten._transformer_encoder_layer_fwd.default] = transformer.encoder_layer
    table[aten.empty.memory_format] = _empty
    table[aten.empty_strided.default] = _empty_strided
    table[aten.empty_permuted.default] = _empty_permuted
    table[aten.empty_like.default] = _empty_like
    table[aten.new_empty.default] = _new_empty
    table[aten.new_empty_strided.default] = _new_empty_strided
    return table


@functools.cache
def _tables():
    keep = {_overload(name) for name in KEPT}
    return _own_rules(), keep, core_aten_decompositions()


@functools.cache
def _core_and_wider() -> dict:
    """What AOTAutograd gets: op -> rule, composite ones left out (make_fx takes them apart
    itself).
    """
    from torch._inductor import inductor_prims  # (what Dynamo makes of addcmul with a tensor value)

    own, keep, core = _tables()
    table = dict(decomposition_table)
    table = {op: fn for op, fn in table.items() if _is_open(op)}
    table.update(core)
    for op in keep:
        table.pop(op, None)
    table.update(own)
    table[inductor_prims.fma] = _fma
    table[aten.copy.default] = _copy
    return table


def table() -> dict:
    return _core_and_wider()


def _is_open(op) -> bool:
    """An op that is neither core ATen nor written in place: decomposed when torch knows how."""
    if not isinstance(op, torch._ops.OpOverload) or op._schema.name.startswith("aten::lift"):
        return False  # (make_fx itself turns lifted constants into attributes)
    return torch.Tag.core not in op.tags and not op._schema.is_mutable and op.namespace == "aten"


@functools.cache
def rule(op):
    """The function that takes `op` apart, or None if it stays."""
    own, keep, core = _tables()
    if op in own:
        return own[op]
    if op in keep or op.namespace not in ("aten", "prims"):
        return None
    if op._schema.is_mutable:
        return None
    if op in core:
        return core[op]
    if op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
        return op.decompose
    if _is_open(op):
        return decomposition_table.get(op)
    return None
