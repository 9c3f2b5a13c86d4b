"""What ends a trace without a Program."""


class Refused(Exception):
    """No Program for this op or these arguments; the reason names the op."""


class Dynamic(Exception):
    """The size or value of a result depends on tensor data."""
