# SPDX-License-Identifier: MIT
"""The raw results of a session of the pool benchmarks."""

from pathlib import Path

from report.scene_results import SceneResults


class PoolResults(SceneResults):
    FORMAT = "pools 1"


def load(path: Path) -> PoolResults:
    return PoolResults.load(path)
