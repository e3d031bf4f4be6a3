"""What several files of cases use as a fixture."""

import pytest
from flow_tools import CLOCK

from duraton.testing import Engine


@pytest.fixture(params=[1, 12], ids=["P1", "P12"])
def engine_of(request):
    """Makes engines with one partition and with twelve; step code finds the newest by `CLOCK`."""

    def make(*apps, **more):
        CLOCK.engine = Engine(*apps, partitions=request.param, **more)
        return CLOCK.engine

    make.partitions = request.param
    return make
