"""Run-time scalars while tracing: hinted SymInt and SymFloat placeholders of a ShapeEnv, and
`sym.*` nodes of expressions.

Unspecified symbols: no 0/1 specialisation, no duck shaping. A scalar that a guard mentions has
been looked at, so that the trace holds for its value alone: `static` finds those.
"""

import sympy
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from . import dtypes
from .errors import Refused


class Unsupported(Exception):
    """An expression that has no `sym.*` form; its symbols become static."""

    def __init__(self, symbols):
        super().__init__("symbolic expression")
        self.symbols = symbols


def new_env() -> ShapeEnv:
    return ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)


def placeholder(env: ShapeEnv, index: int, value):
    """(SymInt or SymFloat, its sympy symbol) with `value` as hint."""
    source = ConstantSource(f"scalar{index}")
    symbol = env.create_unspecified_symbol(value, source, DimDynamic.DYNAMIC)
    make = env.create_symfloatnode if isinstance(value, float) else env.create_symintnode
    return make(symbol, hint=value, source=source), symbol


def static(env: ShapeEnv, symbols) -> set:
    """The symbols that tracing put a guard on."""
    seen = set()
    for guard in env.guards:
        seen |= guard.expr.free_symbols
    seen |= set(env.replacements)
    for asserts in env.deferred_runtime_asserts.values():
        for check in asserts:
            seen |= check.expr.free_symbols
    return seen & set(symbols)


# torch's sympy functions by class name: the `sym.*` op and the kind of its result (None: that of
# its arguments).
_FUNCTIONS = {
    "ToFloat": ("sym.float", float),
    "TruncToInt": ("sym.int", int),
    "FloatTrueDiv": ("sym.truediv", float),
    "IntTrueDiv": ("sym.truediv", float),
    "FloorDiv": ("sym.floordiv", int),
    "FloatPow": ("sym.pow", float),
    "PowByNatural": ("sym.pow", int),
    "OpaqueUnaryFn_sqrt": ("sym.sqrt", float),
}


def emit(value, builder, symbols):
    """A Ref, or a plain number when the expression is one."""
    return _Emitter(builder, symbols).emit(value.node.expr)


class _Emitter:
    def __init__(self, builder, symbols):
        self.builder, self.symbols = builder, symbols

    def emit(self, expr):
        if expr.is_Symbol and expr in self.symbols:
            return self.symbols[expr]
        if expr.is_Integer:
            return int(expr)
        if expr.is_number:
            return float(expr)
        if expr.is_Add or expr.is_Mul:
            return self._fold(expr)
        if isinstance(expr, sympy.Pow):
            return self._node("sym.pow", self._is_int(expr), [self.emit(a) for a in expr.args])
        entry = _FUNCTIONS.get(type(expr).__name__)
        if entry is None:
            raise Unsupported(expr.free_symbols)
        op, kind = entry
        return self._node(op, kind is int, [self.emit(a) for a in expr.args])

    def _fold(self, expr):
        op = "sym.add" if expr.is_Add else "sym.mul"
        terms = sorted(expr.args, key=str)
        out = self.emit(terms[0])
        for term in terms[1:]:
            out = self._node(op, self._is_int(expr), [out, self.emit(term)])
        return out

    @staticmethod
    def _is_int(expr) -> bool:
        return bool(expr.is_integer)

    def _node(self, op, is_int, args):
        return self.builder.node(op, args, [(dtypes.I64 if is_int else dtypes.F64, ())])[0]


def check_supported(value, symbols) -> None:
    if not value.node.expr.free_symbols <= set(symbols):
        raise Refused("a symbol that is no argument")
