"""Memory of tensors as NumPy's arrays."""

import ctypes
import importlib
from typing import Any


def array_of(tensor: Any) -> Any:
    """Return an array on the memory of a contiguous tensor on the processor; the tensor must outlive it.

    ``Tensor.numpy`` would keep the program from resizing the tensor from then on (PyTorch 2.13).
    """
    numpy = importlib.import_module("numpy")
    element = numpy.dtype(str(tensor.dtype).rpartition(".")[2])
    address, size = tensor.data_ptr(), tensor.numel() * tensor.element_size()
    if not address or not size:
        return tensor.numpy()
    return numpy.ndarray(tuple(tensor.shape), element, (ctypes.c_char * size).from_address(address))
