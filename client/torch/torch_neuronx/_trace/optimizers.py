"""Functional twins of `_foreach_*` ops, fused optimizers and gradient scaling: one element-wise
step per tensor of their lists.
"""

import torch

from .errors import Refused
from .twin_table import as_like, full, twin

aten = torch.ops.aten


def foreach(name, func, args, kwargs, write):
    base = name.removeprefix("_foreach_")
    in_place = base.endswith("_") or any(a.is_out for a in func._schema.arguments)
    base = base.rstrip("_")
    kwargs = dict(kwargs)
    targets = kwargs.pop("out", None) or args[0]
    results = [_foreach_one(base, i, args, kwargs) for i in range(len(args[0]))]
    if not in_place:
        return results
    for target, value in zip(targets, results):
        write(target, value)
    return ()


def _at(value, i):
    if isinstance(value, (list, tuple)):
        return value[i]
    return value


def _foreach_one(base, i, args, kwargs):
    self = args[0][i]
    if base == "zero":
        return full(self, 0)
    if base == "copy":
        return as_like(args[1][i], self)
    rest = [_at(a, i) for a in args[1:]]
    kwargs = {k: _at(v, i) for k, v in kwargs.items()}
    if base in ("addcmul", "addcdiv"):
        tensor1, tensor2, *value = rest
        value = value[0] if value else kwargs.get("value", kwargs.get("scalars", 1))
        if isinstance(value, torch.Tensor):
            raise Refused(f"aten._foreach_{base}: scalars in a tensor")
        return getattr(torch, base)(self, tensor1, tensor2, value=value)
    if base == "norm":
        return torch.linalg.vector_norm(self, *rest, **kwargs)
    if base == "pow" and not isinstance(args[0], (list, tuple)):
        self = args[0]
    if base in ("clamp_max", "clamp_min"):
        other = rest[0]
        if isinstance(other, torch.Tensor):
            return (torch.minimum if base == "clamp_max" else torch.maximum)(self, other)
    if base in ("maximum", "minimum") and not isinstance(rest[0], torch.Tensor):
        return (torch.clamp_min if base == "maximum" else torch.clamp_max)(self, rest[0])
    fn = getattr(torch, {"max": "amax"}.get(base, base), None)
    if fn is None:
        raise Refused(f"aten._foreach_{base}: no element-wise form")
    return fn(self, *rest, **kwargs)


@twin("_foreach_pow.ScalarAndTensor")
def _(write, self, exponent):
    return [torch.pow(self, e) for e in exponent]


def _unless(found_inf, new, old):
    """`old` where the step is skipped."""
    if found_inf is None:
        return new
    skip = aten.reshape.default(aten.eq.Scalar(found_inf, 1), [])
    return aten.where.self(skip, old, new)


def _scaled(grad, grad_scale, maximize, write):
    if grad_scale is not None:
        grad = torch.div(grad, torch.reshape(grad_scale, []))
        return grad, (torch.neg(grad) if maximize else grad)
    return None, (torch.neg(grad) if maximize else grad)


def _opmath(*tensors):
    """Half-precision states are stepped in float32, as the CPU's fused kernel does."""
    half = (torch.float16, torch.bfloat16)
    return [
        torch.ops.prims.convert_element_type(t, torch.float32) if t.dtype in half else t
        for t in tensors
    ]


def _adam_step(p, g, m, v, vmax, step, lr, beta1, beta2, weight_decay, eps, decoupled):
    step = step.to(torch.float32) if step.dtype != torch.float32 else step
    if weight_decay != 0:
        p, g = (p * (1 - lr * weight_decay), g) if decoupled else (p, g + p * weight_decay)
    m = m + (g - m) * (1 - beta1)
    v = v * beta2 + g * g * (1 - beta2)
    correction1 = 1 - torch.pow(beta1, step)
    correction2 = torch.sqrt(1 - torch.pow(beta2, step))
    if vmax is not None:
        vmax = torch.maximum(vmax, v)
    denominator = torch.sqrt(v if vmax is None else vmax) / correction2 + eps
    return p - (lr / correction1) * (m / denominator), m, v, vmax


def _fused_adam(
    write,
    decoupled,
    self,
    grads,
    exp_avgs,
    exp_avg_sqs,
    max_exp_avg_sqs,
    state_steps,
    *,
    lr,
    beta1,
    beta2,
    weight_decay,
    eps,
    amsgrad,
    maximize,
    grad_scale=None,
    found_inf=None,
):
    for i, p in enumerate(self):
        new_grad, g = _scaled(grads[i], grad_scale, maximize, write)
        vmax = max_exp_avg_sqs[i] if amsgrad else None
        wide = _opmath(p, g, exp_avgs[i], exp_avg_sqs[i], *([vmax] if amsgrad else []))
        states = _adam_step(
            *wide[:4],
            wide[4] if amsgrad else None,
            state_steps[i],
            lr,
            beta1,
            beta2,
            weight_decay,
            eps,
            decoupled,
        )
        olds = [p, exp_avgs[i], exp_avg_sqs[i], vmax]
        for old, new in zip(olds, states):
            if old is not None:
                write(old, _unless(found_inf, as_like(new, old), old))
        if new_grad is not None:
            write(grads[i], new_grad)
    return ()


@twin("_fused_adamw_", "_fused_adamw_.tensor_lr")
def _(write, *args, **kwargs):
    return _fused_adam(write, True, *args, **kwargs)


@twin("_fused_adam_", "_fused_adam_.tensor_lr")
def _(write, *args, **kwargs):
    return _fused_adam(write, False, *args, **kwargs)


@twin("_fused_sgd_", "_fused_sgd_.tensor_lr")
def _(
    write,
    self,
    grads,
    momentum_buffer_list,
    *,
    weight_decay,
    momentum,
    lr,
    dampening,
    nesterov,
    maximize,
    is_first_step,
    grad_scale=None,
    found_inf=None,
):
    for i, p in enumerate(self):
        new_grad, g = _scaled(grads[i], grad_scale, maximize, write)
        wide_p, g = _opmath(p, g)
        if weight_decay != 0:
            g = g + wide_p * weight_decay
        if momentum_buffer_list:
            buffer = momentum_buffer_list[i]
            new = g if is_first_step else _opmath(buffer)[0] * momentum + g * (1 - dampening)
            write(buffer, _unless(found_inf, as_like(new, buffer), buffer))
            g = g + new * momentum if nesterov else new
        write(p, _unless(found_inf, as_like(wide_p - g * lr, p), p))
        if new_grad is not None:
            write(grads[i], new_grad)
    return ()


@twin("_fused_adagrad_", "_fused_adagrad_.tensor_lr")
def _(
    write,
    self,
    grads,
    state_sums,
    state_steps,
    *,
    lr,
    lr_decay,
    weight_decay,
    eps,
    maximize,
    grad_scale=None,
    found_inf=None,
):
    for i, p in enumerate(self):
        new_grad, g = _scaled(grads[i], grad_scale, maximize, write)
        if weight_decay != 0:
            g = g + p * weight_decay
        rate = lr / (1 + (state_steps[i] - 1) * lr_decay)
        total = state_sums[i] + g * g
        write(state_sums[i], _unless(found_inf, total, state_sums[i]))
        write(p, _unless(found_inf, as_like(p - rate * g / (torch.sqrt(total) + eps), p), p))
        if new_grad is not None:
            write(grads[i], new_grad)
    return ()


@twin("_amp_foreach_non_finite_check_and_unscale_")
def _(write, self, found_inf, inv_scale):
    bad = found_inf
    for grad in self:
        wide = _opmath(grad)[0]
        finite = torch.all(torch.isfinite(wide))
        bad = torch.where(finite, bad, torch.ones_like(bad))
        write(grad, wide * torch.reshape(inv_scale, []))
    write(found_inf, bad)
    return ()


@twin("_amp_update_scale_")
def _(
    write,
    self,
    growth_tracker,
    found_inf,
    scale_growth_factor,
    scale_backoff_factor,
    growth_interval,
):
    skipped = torch.ne(found_inf, 0)
    successes = growth_tracker + 1
    grow = torch.eq(successes, growth_interval)
    grown = self * scale_growth_factor
    grown = torch.where(torch.logical_and(grow, torch.isfinite(grown)), grown, self)
    write(self, torch.where(skipped, self * scale_backoff_factor, grown))
    counted = torch.where(grow, torch.zeros_like(successes), successes)
    write(growth_tracker, torch.where(skipped, torch.zeros_like(successes), counted))
    return self
