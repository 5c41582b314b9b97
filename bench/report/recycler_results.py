# SPDX-License-Identifier: MIT
"""The raw results of a session of the recycler benchmarks."""

from pathlib import Path

from report.scene_results import SceneResults


class RecyclerResults(SceneResults):
    FORMAT = "recyclers 1"


def load(path: Path) -> RecyclerResults:
    return RecyclerResults.load(path)
