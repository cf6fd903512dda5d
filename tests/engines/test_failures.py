"""What the errors of runtimes mean, in the words that they use."""

import pytest

from pipeline.domain.errors import ErrorCode, Transient
from pipeline.engines.failures import failure_of


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69 GiB total capacity)"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Failed to allocate memory for requested buffer"),
        RuntimeError("std::bad_alloc"),
    ],
)
def test_want_of_memory_is_told_apart(error: Exception) -> None:
    assert failure_of(error).code is ErrorCode.OUT_OF_MEMORY


@pytest.mark.parametrize(
    "words",
    [
        "an illegal memory access was encountered",
        "device-side assert triggered",
        "unspecified launch failure",
        "misaligned address",
        "uncorrectable ECC error encountered",
        "CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`",
    ],
)
def test_after_some_errors_a_process_can_compute_nothing_more(words: str) -> None:
    with pytest.raises(Transient, match="CUDA error") as caught:
        failure_of(RuntimeError(f"CUDA error: {words}\nCUDA kernel errors might be asynchronously reported"))
    assert (caught.value.code, caught.value.__suppress_context__) == (ErrorCode.DEVICE_BROKEN, True)
    with pytest.raises(Transient) as again:
        failure_of(caught.value)
    assert again.value is caught.value


def test_whatever_else_goes_wrong_is_the_pages_trouble() -> None:
    failure = failure_of(ValueError("x" * 1000))
    assert failure.code is ErrorCode.ENGINE_FAILED
    assert len(failure.message) < 400
