"""neurond's DType numbers (proto/neurond/v1/program.proto) and torch's dtypes."""

import torch

TO_TORCH = {
    1: torch.bool,
    2: torch.uint8,
    3: torch.int8,
    4: torch.int16,
    5: torch.uint16,
    6: torch.int32,
    7: torch.uint32,
    8: torch.int64,
    9: torch.uint64,
    10: torch.float16,
    11: torch.bfloat16,
    12: torch.float32,
    13: torch.float64,
    14: torch.complex64,
    15: torch.complex128,
}
FROM_TORCH = {dtype: number for number, dtype in TO_TORCH.items()}

INVALID = 0
BOOL, I64, F64 = 1, 8, 13


def number_of(dtype: torch.dtype) -> int:
    """DType number of a torch dtype; Refused if neurond has none."""
    number = FROM_TORCH.get(dtype)
    if number is None:
        from .errors import Refused

        raise Refused(f"dtype {dtype} is not supported on neuron")
    return number
