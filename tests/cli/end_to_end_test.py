#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""End-to-end tests of the `tarn` command: real processes, tiny programs.

Usage: end_to_end_test.py --tarn BIN [--library LIB | --stand-in LIB] [--compiler CXX] GROUP...
A group is a class of the modules imported below. With --stand-in the command is tested apart from
the engine.
"""
import argparse
import os
import sys
import unittest

from advice_test import advice, top
from attach_test import attach, attach_rights, attach_safely, paused, refused, servers
from compare_test import compare
from containers_test import containers
from control_test import control, serve
from cost_test import cost, cost_command, watch
from diff_test import diff, diff_of_times
from foreign_test import foreign
from harness import settings
from hostile_test import hostile
from killed_test import killed, killed_often
from malloc_time_test import malloc_time, short_threads
from manual_test import manual_bash, manual_fish, manual_forms, manual_readers, manual_spellings, manual_zsh
from mistakes_test import every_option, mistakes
from output_test import output
from peers_test import answers, sessions
from profile_test import profile, profile_life
from prove_test import prove
from refusals_test import refusals
from rss_test import leaks, rss, trouble
from run_test import run, signals
from sandbox_test import sandbox
from trees_test import trees
from usage_test import options, real_library, usage

GROUPS = {group.__name__: group for group in (advice, answers, attach, attach_rights, attach_safely, compare, containers, control, cost, cost_command, diff, diff_of_times, foreign, hostile, killed, killed_often, leaks,
                                              malloc_time, manual_bash, manual_fish, manual_forms, manual_readers, manual_spellings, manual_zsh, mistakes,
                                              every_option, options, output, paused, profile, profile_life, prove, real_library,
                                              refusals, refused, rss, run, sandbox, serve, servers, sessions, short_threads, signals, top, trees, trouble,
                                              usage, watch)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tarn", required=True)
    parser.add_argument("--stand-in")
    parser.add_argument("--library")
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--cost-loop")
    for word in ("--recorder", "--profile-target", "--profile-dump", "--make-profile", "--hostile-session", "--attach-target",
                 "--leak-target"):
        parser.add_argument(word)
    parser.add_argument("groups", nargs="+", choices=sorted(GROUPS))
    arguments = parser.parse_args()
    if not arguments.library and not arguments.stand_in:
        parser.error("one of --library and --stand-in is needed")
    settings.tarn = os.path.abspath(arguments.tarn)
    # --library wins over --stand-in.
    settings.stand_in = None if arguments.library else arguments.stand_in
    settings.library = os.path.abspath(arguments.library or arguments.stand_in)
    settings.compiler = arguments.compiler
    settings.cost_loop = arguments.cost_loop
    settings.recorder = arguments.recorder
    settings.profile_target = arguments.profile_target
    settings.profile_dump = arguments.profile_dump
    settings.make_profile = arguments.make_profile
    settings.hostile_session = arguments.hostile_session
    settings.attach_target = arguments.attach_target
    settings.leak_target = arguments.leak_target
    suite = unittest.TestSuite()
    for group in arguments.groups:
        suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(GROUPS[group]))
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    for reason in sorted({reason for _, reason in result.skipped}):
        print(f"not tested: {reason}")
    if result.wasSuccessful() and result.testsRun and len(result.skipped) == result.testsRun:
        sys.exit(77)  # CTest counts it as skipped
    sys.exit(0 if result.wasSuccessful() and result.testsRun else 1)


if __name__ == "__main__":
    main()
