"""Systems under test that go wrong, for the tests of the conformance harness."""

import os
import time
from pathlib import Path

import numpy as np

from sw.measure.conformance import sut


class TosaSUTRunner(sut.TosaSUTRunner):
    """The NPU, but one test's result is wrong, one kills the process, one never ends."""

    def runTestGraph(self):
        found = super().runTestGraph()
        fault = os.environ[f"FAULT_{self.testName}"] if self._chosen() else ""
        if fault == "wrong":
            file = Path(self.testDir) / self.testDesc["ofm_file"][0]
            result = np.load(file)
            result.reshape(-1)[-1] ^= 1
            np.save(file, result)
        if fault == "unsupported":
            return self.TosaGraphResult.OTHER_ERROR, "unsupported: too large"
        if fault == "dies":
            os._exit(3)
        if fault == "stands":
            time.sleep(600)
        return found

    def _chosen(self):
        return f"FAULT_{self.testName}" in os.environ
