"""Functional twins: what an in-place or `out=` op computes, and which argument gets it.

Most twins follow from the schema (`add_.Tensor` and `add.out` are `add.Tensor`); the rest are
written here, also for ops that write without saying so (`native_batch_norm`). A twin calls
functional ops only and tells `write(target, value)` what becomes of each written argument; the
value is cast and broadcast to the target afterwards.
"""

import functools

import torch

from .errors import Refused

aten = torch.ops.aten
prims = torch.ops.prims

_FACTORY_ARGS = ("dtype", "layout", "device", "pin_memory")
# out= variants that compute in the out argument's dtype when none is given.
_OUT_DTYPE = {
    "sum",
    "prod",
    "mean",
    "nansum",
    "cumsum",
    "cumprod",
    "logcumsumexp",
    "linalg_vector_norm",
    "softmax",
}

_hand = {}


def _twin(*names):
    def register(fn):
        for name in names:
            _hand[name] = fn
        return fn

    return register


def run(func, args, kwargs, write, mode=None):
    """Calls the functional form of `func`; returns what `func` returns, written arguments as
    themselves.
    """
    name = func._schema.name.removeprefix("aten::")
    full = f"{name}.{func._schema.overload_name}" if func._schema.overload_name else name

    def call():
        hand = _hand.get(full) or _hand.get(name)
        if hand is not None:
            return hand(write, *args, **kwargs)
        if name.startswith("_foreach_"):
            return _foreach(name, func, args, kwargs, write)
        if not func._schema.is_mutable:
            return func(*args, **kwargs)
        return _by_schema(func, args, kwargs, write)

    if mode is None:
        return call()
    with mode:
        return call()


# ---- by schema ----------------------------------------------------------------------------------


def _is_write(arg) -> bool:
    return arg.alias_info is not None and arg.alias_info.is_write


def _signature(schema, skip=()):
    return [(a.name, str(a.type)) for a in schema.arguments if not a.is_out and a.name not in skip]


@functools.cache
def functional_twin(func):
    """(twin, is a factory) of a mutable overload; Refused if torch has none."""
    schema = func._schema
    name = schema.name.split("::")[1]
    is_out = any(a.is_out for a in schema.arguments)
    base = name if is_out else name[:-1] if name.endswith("_") else name + "_functional"
    packet = getattr(getattr(torch.ops, func.namespace), base, None)
    if packet is None:
        raise Refused(f"{func}: no functional form")
    wanted = _signature(schema)
    overloads = sorted(packet.overloads(), key=lambda o: o != schema.overload_name)
    for skip in ((), _FACTORY_ARGS):
        for overload in overloads:
            twin = getattr(packet, overload)
            if not twin._schema.is_mutable and _signature(twin._schema, skip) == wanted:
                return twin, bool(skip) and any(a.name in skip for a in twin._schema.arguments)
    raise Refused(f"{func}: no functional form")


def _bound(func, args, kwargs) -> dict:
    values = {a.name: v for a, v in zip(func._schema.arguments, args)}
    values.update(kwargs)
    return values


def _by_schema(func, args, kwargs, write):
    twin, factory = functional_twin(func)
    values = _bound(func, args, kwargs)
    targets = [values.get(a.name) for a in func._schema.arguments if _is_write(a)]
    call_args, call_kwargs = [], {}
    for spec in twin._schema.arguments:
        if spec.name in values and not (factory and spec.name in _FACTORY_ARGS):
            value = values[spec.name]
        elif spec.name in ("dtype", "device") and factory:
            value = getattr(targets[0], spec.name)
        else:
            continue
        if spec.kwarg_only:
            call_kwargs[spec.name] = value
        else:
            call_args.append(value)
    if "out" in values and func._schema.name.removeprefix("aten::") in _OUT_DTYPE:
        if call_kwargs.get("dtype") is None and any(
            a.name == "dtype" for a in twin._schema.arguments
        ):
            call_kwargs["dtype"] = targets[0].dtype
    out = twin(*call_args, **call_kwargs)
    results = list(out) if isinstance(out, (list, tuple)) else [out]
    fresh = [r for r in func._schema.returns if r.alias_info is None]
    for target, value in zip(targets, results[len(fresh) :]):
        if target is None:
            continue
        for t, v in zip(target, value) if isinstance(target, (list, tuple)) else [(target, value)]:
            write(t, v)
    return _returns(func, values, results[: len(fresh)])


def _returns(func, values, fresh):
    fresh = iter(fresh)
    out = []
    for spec in func._schema.returns:
        if spec.alias_info is None:
            out.append(next(fresh))
            continue
        names = [a.name for a in func._schema.arguments if _is_write(a)]
        same = [n for n in names if _alias_set(func, n) & set(spec.alias_info.before_set)]
        out.append(values.get(same[0]) if same else None)
    if not out:
        return ()
    return out[0] if len(out) == 1 else tuple(out)


def _alias_set(func, name):
    spec = next(a for a in func._schema.arguments if a.name == name)
    return set(spec.alias_info.before_set)


# ---- by hand ------------------------------------------------------------------------------------


def _full(like, value):
    return aten.full.default(list(like.shape), value, dtype=like.dtype, device=like.device)


def _as(value, like):
    if value.dtype != like.dtype:
        value = prims.convert_element_type.default(value, like.dtype)
    return value if value.shape == like.shape else aten.expand.default(value, list(like.shape))


@_twin("fill_.Scalar")
def _(write, self, value):
    write(self, _full(self, value))
    return self


@_twin("fill_.Tensor")
def _(write, self, value):
    write(self, _as(value, self) if isinstance(value, torch.Tensor) else _full(self, value))
    return self


@_twin("zero_")
def _(write, self):
    write(self, _full(self, 0))
    return self


@_twin("copy_")
def _(write, self, src, non_blocking=False):
    write(self, _as(src, self))
    return self


@_twin("_copy_from", "_copy_from_and_resize")
def _(write, self, dst, non_blocking=False):
    write(dst, _as(self, dst))
    return dst


@_twin("arange.out")
def _(write, end, *, out):
    write(out, aten.arange.start_step(0, end, 1, dtype=out.dtype, device=out.device))
    return out


@_twin("arange.start_out", "range.out")
def _(write, start, end, step=1, *, out):
    values = aten.arange.start_step(start, end, step, dtype=out.dtype, device=out.device)
    if values.shape != out.shape:  # range includes its end
        values = aten.arange.start_step(start, end + step, step, dtype=out.dtype, device=out.device)
    write(out, values)
    return out


@_twin("eye.out")
def _(write, n, *, out):
    write(out, aten.eye.default(n, dtype=out.dtype, device=out.device))
    return out


@_twin("eye.m_out")
def _(write, n, m, *, out):
    write(out, aten.eye.m(n, m, dtype=out.dtype, device=out.device))
    return out


@_twin("randperm.out", "randperm.generator_out")
def _(write, n, generator=None, *, out):
    write(out, aten.randperm.default(n, dtype=out.dtype, device=out.device))
    return out


@_twin("bernoulli_.float")
def _(write, self, p=0.5, *, generator=None):
    write(self, aten.bernoulli.p(self, p))
    return self


@_twin("normal_")
def _(write, self, mean=0.0, std=1.0, *, generator=None):
    write(self, aten.normal_functional.default(self, mean, std))
    return self


@_twin("_index_put_impl_")
def _(write, self, indices, values, accumulate=False, unsafe=False):
    write(self, aten.index_put.default(self, indices, values, accumulate))
    return self


@_twin("embedding_renorm_")
def _(write, self, indices, max_norm, norm_type):
    flat = aten.reshape.default(indices, [-1])
    rows = aten.index_select.default(self, 0, flat)
    norms = aten.linalg_vector_norm.default(rows, norm_type, [1], True)
    scale = aten.where.self(
        aten.gt.Scalar(norms, max_norm),
        aten.mul.Tensor(aten.reciprocal.default(aten.add.Tensor(norms, 1e-7)), max_norm),
        aten.full.default(list(norms.shape), 1, dtype=norms.dtype, device=norms.device),
    )
    write(self, aten.index_put.default(self, [flat], aten.mul.Tensor(rows, scale)))
    return self


def _batch_norm_train(write, x, weight, bias, running_mean, running_var, momentum, eps):
    if running_mean is None:
        return aten._native_batch_norm_legit.no_stats(x, weight, bias, True, momentum, eps)
    out, mean, invstd, new_mean, new_var = aten._native_batch_norm_legit_functional.default(
        x, weight, bias, running_mean, running_var, True, momentum, eps
    )
    write(running_mean, new_mean)
    write(running_var, new_var)
    return out, mean, invstd


def _batch_norm_eval(x, weight, bias, running_mean, running_var, momentum, eps):
    out, _, _ = aten._native_batch_norm_legit_no_training.default(
        x, weight, bias, running_mean, running_var, momentum, eps
    )
    empty = aten.full.default([0], 0, dtype=running_mean.dtype, device=x.device)
    return out, empty, empty


@_twin("native_batch_norm", "_native_batch_norm_legit")
def _(write, x, weight, bias, running_mean, running_var, training, momentum, eps):
    if training:
        return _batch_norm_train(write, x, weight, bias, running_mean, running_var, momentum, eps)
    return _batch_norm_eval(x, weight, bias, running_mean, running_var, momentum, eps)


@_twin("_native_batch_norm_legit.no_stats")
def _(write, x, weight, bias, training, momentum, eps):
    return aten._native_batch_norm_legit.no_stats(x, weight, bias, training, momentum, eps)


@_twin("_batch_norm_with_update")
def _(write, x, weight, bias, running_mean, running_var, momentum, eps):
    out = _batch_norm_train(write, x, weight, bias, running_mean, running_var, momentum, eps)
    return (*out, aten.full.default([0], 0, dtype=torch.uint8, device=x.device))


@_twin("_batch_norm_no_update")
def _(write, x, weight, bias, running_mean, running_var, momentum, eps):
    out = _batch_norm_eval(x, weight, bias, running_mean, running_var, momentum, eps)
    return (*out, aten.full.default([0], 0, dtype=torch.uint8, device=x.device))


@_twin("rrelu_with_noise", "rrelu_with_noise_")
def _(write, self, noise, lower=0.125, upper=1 / 3, training=False, generator=None):
    out, new_noise = aten.rrelu_with_noise_functional.default(self, noise, lower, upper, training)
    if training:
        write(noise, new_noise)
    return out


# ---- foreach and fused optimizers ---------------------------------------------------------------

# _foreach_<name> whose element-wise op has another name.
_FOREACH_NAMES = {"max": "amax", "zero": None, "copy": None}


def _foreach(name, func, args, kwargs, write):
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
        return _full(self, 0)
    if base == "copy":
        return _as(args[1][i], self)
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


@_twin("_foreach_pow.ScalarAndTensor")
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
                write(old, _unless(found_inf, _as(new, old), old))
        if new_grad is not None:
            write(grads[i], new_grad)
    return ()


@_twin("_fused_adamw_", "_fused_adamw_.tensor_lr")
def _(write, *args, **kwargs):
    return _fused_adam(write, True, *args, **kwargs)


@_twin("_fused_adam_", "_fused_adam_.tensor_lr")
def _(write, *args, **kwargs):
    return _fused_adam(write, False, *args, **kwargs)


@_twin("_fused_sgd_", "_fused_sgd_.tensor_lr")
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
            write(buffer, _unless(found_inf, _as(new, buffer), buffer))
            g = g + new * momentum if nesterov else new
        write(p, _unless(found_inf, _as(wide_p - g * lr, p), p))
        if new_grad is not None:
            write(grads[i], new_grad)
    return ()


@_twin("_fused_adagrad_", "_fused_adagrad_.tensor_lr")
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
        write(p, _unless(found_inf, _as(p - rate * g / (torch.sqrt(total) + eps), p), p))
        if new_grad is not None:
            write(grads[i], new_grad)
    return ()


@_twin("_amp_foreach_non_finite_check_and_unscale_")
def _(write, self, found_inf, inv_scale):
    bad = found_inf
    for grad in self:
        wide = _opmath(grad)[0]
        finite = torch.all(torch.isfinite(wide))
        bad = torch.where(finite, bad, torch.ones_like(bad))
        write(grad, wide * torch.reshape(inv_scale, []))
    write(found_inf, bad)
    return ()


@_twin("_amp_update_scale_")
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
