# SPDX-License-Identifier: MIT
"""The chart and the tables of the model."""

from pathlib import Path

from report import charts
from report.table import Table
from scaling import model
from scaling.counters import WORKLOADS

PROCESSORS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SUBJECT = "tarn"


def machine_of(session: dict, sockets: int = 1) -> model.Machine:
    return model.Machine(session["line_ns"], session["independent_line_ns"], sockets=sockets)


def predictions(inputs: model.Inputs, machine: model.Machine) -> list[float]:
    """Throughput over that of one processor, for each of PROCESSORS."""
    base = model.throughput(inputs, machine, 1)
    return [model.throughput(inputs, machine, p) / base for p in PROCESSORS]


def growth_table(session: dict, of: dict[tuple[str, str], model.Inputs]) -> Table:
    table = Table("Throughput over that of one processor, by the model",
                  ["workload, library, sockets", *(f"{p}" for p in PROCESSORS)])
    for (library, workload), inputs in of.items():
        for sockets in (1, 2):
            values = predictions(inputs, machine_of(session, sockets))
            table.rows.append([f"{workload}, {library}, {sockets}", *(f"{value:.1f}" for value in values)])
    return table


def check_table(session: dict, of: dict[tuple[str, str], model.Inputs]) -> Table:
    """What the model says of one and two processors beside what was measured there."""
    table = Table("The model beside measurements, ns of processor time per operation",
                  ["workload, library", "1, measured", "spread", "1, model", "2, measured", "spread", "2, model", "off by"])
    machine = machine_of(session)
    for (library, workload), inputs in of.items():
        measured = session["libraries"][library][workload]["timed"]
        cells = [f"{workload}, {library}"]
        for processors in (1, 2):
            values = sorted(each * 1e9 for each in measured[str(processors)])
            middle = values[len(values) // 2]
            said = model.operation_ns(inputs, machine, processors)
            cells += [f"{middle:.1f}", f"{values[0]:.1f} to {values[-1]:.1f}", f"{said:.1f}"]
        table.rows.append([*cells, f"{100 * (said / middle - 1):+.0f} %"])
    return table


def lock_table(session: dict, of: dict[tuple[str, str], model.Inputs], processors: int = 64, most: int = 4) -> Table:
    """The locks that most of the processors would want at once."""
    table = Table(f"The locks that {processors} processors of one socket want most",
                  ["workload, library: lock", "taken per 1,000 operations", "held, ns", "lines", "locks", "wanted by"])
    machine = machine_of(session)
    for (library, workload), inputs in of.items():
        shared = model.shared_of(inputs, processors, machine.line_ns)
        for wanted, key in model.demand(inputs, machine, processors)[:most]:
            lock = shared[key]
            table.rows.append([f"{workload}, {library}: {key}", f"{1000 * lock.rate:.3f}", f"{lock.held_ns:.0f}",
                               f"{lock.lines:.1f}", f"{lock.homes}", f"{wanted:.2f}"])
    return table


def draw(session: dict, of: dict[tuple[str, str], model.Inputs], path: Path) -> None:
    plot = charts.pyplot()
    names = [each.name for each in WORKLOADS if any(name == each.name for _, name in of)]
    figure, grid = plot.subplots(2, 2, figsize=(9, 8), sharex=True, sharey=True, squeeze=False)
    for axes, name in zip(grid.flat, names):
        axes.plot(PROCESSORS, PROCESSORS, color=charts.FAINT, linewidth=1, label="in proportion")
        libraries = [library for library, workload in of if workload == name]
        for library in libraries:
            colour = charts.SUBJECT_COLOUR if library == SUBJECT else charts.PEER_COLOURS[0]
            for sockets, dashes in ((1, "-"), (2, "--")):
                axes.plot(PROCESSORS, predictions(of[library, name], machine_of(session, sockets)), dashes, color=colour,
                          linewidth=2 if library == SUBJECT else 1.4,
                          label=f"{library}, {sockets} socket{'s' if sockets > 1 else ''}")
            timed = session["libraries"][library][name]["timed"]
            middle = {p: sorted(timed[p])[len(timed[p]) // 2] for p in ("1", "2")}
            axes.plot([1, 2], [1, 2 * middle["1"] / middle["2"]], "o", color=colour, markersize=5)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(PROCESSORS, labels=[str(p) for p in PROCESSORS])
        axes.set_yticks(PROCESSORS, labels=[str(p) for p in PROCESSORS])
        axes.set_title(name, color=charts.INK)
        axes.grid(True, linewidth=0.5)
        axes.set_axisbelow(True)
    for axes in grid.flat[len(names):]:
        axes.set_visible(False)
    for axes in grid[-1]:
        axes.set_xlabel("processors = threads")
    for row in grid:
        row[0].set_ylabel("throughput over that of one processor")
    grid[0][0].legend(fontsize=8, loc="upper left")
    machine = machine_of(session)
    disturbed = session.get("disturbed_runs", 0)
    doubt = f"{disturbed} runs were disturbed by other programs: not to be quoted. " if disturbed else ""
    figure.text(0.5, 0.005, f"{doubt}Model from counters of 1 to {max(session['threads'])} threads on 2 processors; dots: measured. "
                f"A line takes {machine.line_ns:.0f} ns within a socket (measured), {machine.far:g} times as long between sockets.\n"
                "Locks first come, first served; no limit of memory bandwidth; no kernel. "
                "All assumptions: docs/explanation/scaling.md",
                ha="center", fontsize=8)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    charts.save(figure, path)
