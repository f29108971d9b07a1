"""The kernels of encoded blocks, compiled as C++: they make what the C core makes, also where no GPU is."""

from pathlib import Path

import pytest

from checks.gpu.emulation import Emulation
from checks.gpu.granule_cases import compare
from kvtier._encoding import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_kernels_encode_and_decode_granules_of_any_bits_as_the_c_core_does(kind: str, tmp_path: Path) -> None:
    compare(Emulation(kind, tmp_path), kind, (512, 1152, 2048), rounds=1)
