# SPDX-License-Identifier: MIT
"""What tarn's recycler has to reach, each line with the figure that was measured."""

from report import goals
from report.goals import Goal, over
from report.recycler_results import RecyclerResults

TARN, GO, NETTY, BY_HAND = "tarn::recycler", "Go sync.Pool", "Netty Recycler", "C++, kept by hand"

# Scene, cell, over whom, at most.
RATIOS = (
    ("get_release", "", GO, 0.35),
    ("get_release", "", NETTY, 0.35),
    ("parallel", "2 processors", GO, 0.60),
    ("burst100", "", GO, 0.30),
    ("burst100", "", NETTY, 1.00),
    ("cross", "1 processor", GO, 0.50),
    ("cross", "2 processors", GO, 0.50),
    ("buffer10k", "", BY_HAND, 1.05),
)
# Scenes in which the recycled object must need no allocation. What a session's first rounds need is a part of a
# thousandth.
COUNTED = ("buffer10k", "json")
NO_ALLOCATION = 0.01


def all_goals(results: RecyclerResults) -> list[Goal]:
    found = []
    for scene, cell, other, limit in RATIOS:
        if cell in results.cells(scene):
            ratio = over(results.median(scene, cell, TARN, "ns"), results.median(scene, cell, other, "ns"))
            text = " ".join(word for word in (f"{TARN}: {scene}", cell) if word)
            found.append(Goal(f"{text}, over {other}", ratio, limit))
    for scene in COUNTED:
        if results.cells(scene):
            count = results.median(scene, "", TARN, "allocations")
            found.append(Goal(f"{TARN}: {scene}, allocations per operation", count, NO_ALLOCATION))
    return found


COMPARED: goals.Compared = {
    scene: (("ns",), False) for scene in ("get_release", "parallel", "burst100", "cross")
}


def lost(results: RecyclerResults) -> list[str]:
    return goals.lost(results, COMPARED)
