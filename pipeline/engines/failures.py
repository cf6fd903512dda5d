"""What an error of an engine means: for its page, or for the whole process that holds the device."""

from pipeline.domain.errors import ErrorCode, RecognitionFailed, Transient

_SIGNS_OF_WANT = (
    "bad_alloc",
    "out of memory",
    "insufficient memory",
    "failed to allocate",
    "can't allocate memory",
    "status_alloc_failed",  # cuBLAS's and cuDNN's
)
_SIGNS_OF_A_BROKEN_DEVICE = (
    "illegal memory access",
    "device-side assert",
    "unspecified launch failure",
    "the launch timed out",
    "illegal instruction",
    "misaligned address",
    "invalid program counter",
    "hardware stack error",
    "operation not supported on global/shared address space",
    "uncorrectable ecc error",
    "uncorrectable nvlink error",
    "status_execution_failed",
)
"""Of the errors of which CUDA's runtime API (cudaError_t, 12.x) says that any further work returns the same error until
the process is ended and started again, in the words of `cudaGetErrorString`; the last is cuBLAS's and cuDNN's."""


def failure_of(error: Exception) -> RecognitionFailed:
    """Return what an error means for a page; it has no traceback. Native messages name shapes and files, never text.

    Raises: Transient (`device_broken`), if this process can compute nothing more.
    """
    if isinstance(error, Transient) and error.code is ErrorCode.DEVICE_BROKEN:
        raise error
    why = f"{type(error).__name__}: {str(error).strip()[:300]}"
    said = why.lower()
    if isinstance(error, MemoryError) or any(sign in said for sign in _SIGNS_OF_WANT):
        return RecognitionFailed(ErrorCode.OUT_OF_MEMORY, why)
    if any(sign in said for sign in _SIGNS_OF_A_BROKEN_DEVICE):
        raise Transient(ErrorCode.DEVICE_BROKEN, why) from None
    return RecognitionFailed(ErrorCode.ENGINE_FAILED, why)
