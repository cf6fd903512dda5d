"""What modules say of themselves that load models in torch."""

import pytest

IN_TORCH = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]
