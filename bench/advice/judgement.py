# SPDX-License-Identifier: MIT
"""What is right and wrong in the advice of a program, by the proof: one row per program, and the sums of a half.

A program's judged advice is the first that saves at least 1 % and needs no edit, or is a pool that `tarn prove --plan` can bring; where
there is none, the advice is to leave it as far as no edit is wanted. All figures are shares of CPU time.
"""
import statistics

LEAST = 0.01  # from which on tarn advise names a change
NOISE = 0.03  # what a measurement moves by from run to run
GAIN = 0.10   # too much to be missed


def judged(result):
    return next((one for one in result["told"] if one["saving"] >= LEAST), None)


def place(low, value, high):
    """Where a measured saving lies: "yes" within the interval, "noise" within it and what runs differ by, "NO" elsewhere."""
    if low <= value <= high:
        return "yes"
    return "noise" if low - NOISE <= value <= high + NOISE else "NO"


def direction(way):
    if way["saved"] > 0:
        return "right"
    return "noise" if way["outcome"] != "more" and way["saved"] > -NOISE else "WRONG"


def leaving(result, one):
    """Whether it was right to advise a change, or to leave it."""
    best = max((way["saved"] for way in result["measured"].values()), default=0)
    if best < NOISE:
        return "right" if one is None or one["saving"] < NOISE else "WRONG"
    if one is not None or (best >= GAIN and result["placement"]):
        return "right"
    return "WRONG" if best >= GAIN else "missed"


def judge(result):
    one = judged(result)
    best = max(result["measured"].items(), key=lambda way: way[1]["saved"], default=("", {"saved": 0}))
    row = {"program": result["program"], "half": result["half"], "advice": one["kind"] if one else "leave it",
           "best": best[0], "best_saved": best[1]["saved"], "placement": result["placement"], "leave": leaving(result, one),
           "first": result["first"], "same_as_user": result["first"] == result["first_as_user"]}
    if one is None:
        # Nothing is said to gain; the unchanged program is the way.
        return {**row, "low": 0, "saving": 0, "high": LEAST, "measured": best[1]["saved"], "measured_low": None,
                "measured_high": None, "inside": place(0, best[1]["saved"], LEAST), "direction": "", "width": None}
    way = result["measured"][one["way"]]
    return {**row, "low": one["low"], "saving": one["saving"], "high": one["high"], "measured": way["saved"],
            "measured_low": way["low"], "measured_high": way["high"], "inside": place(one["low"], way["saved"], one["high"]),
            "direction": direction(way), "width": one["high"] / one["low"] if one["low"] > 0 else float("inf")}


def summary(rows):
    widths = [row["width"] for row in rows if row["width"] is not None]
    return {
        "programs": len(rows),
        "advised": len(widths),
        "direction_wrong": sum(row["direction"] == "WRONG" for row in rows),
        "inside": sum(row["inside"] == "yes" for row in rows),
        "inside_with_noise": sum(row["inside"] != "NO" for row in rows),
        "median_width": statistics.median(widths) if widths else None,
        "leave_right": sum(row["leave"] == "right" for row in rows),
        "leave_wrong": sum(row["leave"] == "WRONG" for row in rows),
        "same_as_user": sum(row["same_as_user"] for row in rows),
    }


def percent(value):
    return "" if value is None else f"{100 * value:.1f}"


HEADER = (f"{'program':15} {'advice':15} {'said %':>7} {'interval':>13} {'measured %':>10} {'interval':>13} {'inside':>6} {'width':>5} "
          f"{'direction':>9} {'leave':>6} {'best way':>17}  as user")


def say(row):
    def between(low, high):
        return "" if low is None else f"{percent(low)} to {percent(high)}"

    width = "" if row["width"] is None else f"{row['width']:.1f}"
    first = "leave it" if row["first"] is None else row["first"][0]
    user = "same" if row["same_as_user"] else "OTHER"
    return (f"{row['program']:15} {row['advice']:15} {percent(row['saving']):>7} {between(row['low'], row['high']):>13} "
            f"{percent(row['measured']):>10} {between(row['measured_low'], row['measured_high']):>13} {row['inside']:>6} {width:>5} "
            f"{row['direction']:>9} {row['leave']:>6} {row['best']:>11} {percent(row['best_saved']):>5}  {user} ({first})"
            + ("; placement may matter" if row["placement"] else ""))


def say_summary(half, rows):
    found = summary(rows)
    width = "-" if found["median_width"] is None else f"{found['median_width']:.1f}"
    return (f"{half}: {found['programs']} programs, {found['advised']} of them with advice; direction wrong in "
            f"{found['direction_wrong']}; measured inside the interval in {found['inside']}, {found['inside_with_noise']} with "
            f"{100 * NOISE:.0f} % for noise; median width {width}; to leave it or not: right in {found['leave_right']}, wrong in "
            f"{found['leave_wrong']}; same top advice as an ordinary user in {found['same_as_user']}")
