# SPDX-License-Identifier: MIT
"""The mallocs of a session, and the options that add to them: the C library's, those that Debian packages installed,
newer ones out of crates, and tarn's."""

import argparse
import sys
from pathlib import Path

from peers import crates
from peers.contender import SUBJECT, Contender, find_subject, installed_peers

BUILT = Path(__file__).resolve().parent.parent.parent / "build" / "peers"


def add_peer_options(parser: argparse.ArgumentParser) -> None:
    newer = "newer mimalloc and jemalloc, also snmalloc and tcmalloc, fetched by cargo and built in build/peers"
    parser.add_argument("--peers-from-crates", action="store_true", help=newer)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_peer_options(parser)
    parser.add_argument("--tarn", type=Path, metavar="LIB", help="libtarn.so (default: that of the build)")


def find_peers(options: argparse.Namespace, notices: list[str], without: tuple[str, ...] = ()) -> list[Contender]:
    """All but tarn's, glibc's first; a notice for each that is not here. A newer version takes the place of the installed one;
    `without` names installed ones to leave out."""
    found, missing = installed_peers(without)
    notices += missing
    if options.peers_from_crates and options.list:
        notices.append("peers from crates: fetched and built when they are measured")
    elif options.peers_from_crates:
        newer = crates.build_all(BUILT, lambda line: print(line, file=sys.stderr), notices)
        found = [each for each in found if not any(new.name.startswith(each.name) for new in newer)] + newer
    return found


def find(options: argparse.Namespace, notices: list[str], without: tuple[str, ...] = ()) -> list[Contender]:
    """tarn's first, then the peers."""
    found = find_peers(options, notices, without)
    if library := find_subject(options.build_dir, options.tarn):
        return [Contender(SUBJECT, library), *found]
    notices.append(f"tarn: no lib/libtarn.so in {options.build_dir} or beside it; build it or name it with --tarn")
    return found
