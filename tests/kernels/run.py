#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the tests of a build on another kernel: boots Debian's kernel under QEMU and runs ctest's tests in the guest.

    tests/kernels/run.py --kernel 6.1 --kernel 6.12 --tests 'unit|guarantee' --build build/release

Exit status: 0 all tests passed or were skipped, 1 a test failed or a guest did not finish, 2 wrong usage,
77 none failed, but a kernel has no guest here (the reason is printed).
"""
import argparse
import pathlib
import re
import sys
import time

import ctest_list
import guest
import guest_image
import kernel_package
import results

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Each takes minutes to hours under emulation, most of them because of memory traffic or context switches.
SLOW = (r"stress\.|pools\.idle|\.(07_realloc|08_calloc|08_untouched|10_many_threads|11_live_threads|25_memory_limit|"
        r"27_producer|28_threads|29_idle|30_)")
GUESTS = 5  # how many guests are booted at most, one after another, if each ends before all tests have run
TRIPLES = {"arm64": ("aarch64-linux-gnu", "ld-linux-aarch64.so.1")}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kernel", action="append", help="version of a Debian kernel, such as 6.1; may be repeated")
    parser.add_argument("--build", default="build/release", help="the build folder whose tests run")
    parser.add_argument("--labels", default="unit,death,guarantees,hardened,stress,pools", help="ctest labels that run")
    parser.add_argument("--tests", default="", help="a regular expression that a test's name must contain")
    parser.add_argument("--exclude", default="", help="a regular expression that a test's name must not contain")
    parser.add_argument("--without-slow", action="store_true", help="without KVM, leave out the tests named in SLOW")
    parser.add_argument("--user", default="root", help="the user in the guest: root or nobody")
    parser.add_argument("--arch", default="amd64", choices=["amd64", "arm64"])
    parser.add_argument("--cpus", type=int, help="the guest's processors (default: 2, or 1 without KVM)")
    parser.add_argument("--nodes", type=int, default=1, help="the guest's memory nodes; divides --cpus and --memory")
    parser.add_argument("--memory", default="3G")
    parser.add_argument("--accel", choices=["kvm", "tcg", "uml"],
                        help="how to emulate (default: kvm if it boots, else tcg); uml: User Mode Linux, 6.1 only")
    parser.add_argument("--fast", action="store_true", help="KVM, or else User Mode Linux; skip (77) where neither boots")
    parser.add_argument("--scale", type=float, help="multiplies the tests' time limits (default: 1, or 10 without KVM)")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FILE",
                        help="keep results in FILE, and do not repeat tests that passed or were skipped there before")
    parser.add_argument("--packages", default=ROOT / "build/kernels", type=pathlib.Path, help="where kernels are kept")
    parser.add_argument("--verbose", action="store_true", help="print everything that the guest prints")
    parser.add_argument("--command", help="run this one shell command in the guest instead of the build's tests")
    options = parser.parse_args()
    if (options.cpus or 1) % options.nodes != 0 or options.accel == "uml" and options.nodes > 1:
        parser.error("--nodes must divide --cpus, and needs a guest under QEMU")
    return options


def main():
    options = arguments()
    if options.command:
        tests = [ctest_list.Test("command", ["/bin/sh", "-c", options.command], [], 600, 77, str(pathlib.Path.cwd()))]
        options.verbose = True
    else:
        tests = ctest_list.read(options.build, options.labels.split(","), options.tests, options.exclude)
    if not tests:
        print("no built test fits --labels, --tests and --exclude")
        return 2
    failed = skipped = False
    for version in options.kernel or ["6.1"]:
        try:
            failed = run_on(version, tests, options) != 0 or failed
        except kernel_package.Unavailable as reason:
            print(f"{version}: skipped: {reason}")
            skipped = True
    return 1 if failed else 77 if skipped else 0


def run_on(version, tests, options):
    packages = kernel_package.Packages(options.packages, options.arch)
    machine, accelerator, kernel = choose(version, packages, options)
    image = kernel_package.image(kernel)
    if options.without_slow and accelerator == "tcg":
        print("left out: " + " ".join(test.name for test in tests if re.search(SLOW, test.name)))
        tests = [test for test in tests if not re.search(SLOW, test.name)]
    scale = options.scale or (1 if accelerator == "kvm" else 10)
    machine.cpus = options.cpus or (2 if accelerator == "kvm" else 1)
    machine.nodes = options.nodes
    kept = results.Kept(options.keep, options.build, [kernel_package.release(kernel), options.arch, options.user])
    print(f"{kernel_package.release(kernel)} ({options.arch}, {accelerator}, {machine.cpus} processors, "
          f"{options.memory}), {len(tests)} tests as {options.user}", flush=True)
    started = time.monotonic()
    outcome = guest.Outcome(results=[result for result in map(kept.result, tests) if result])
    if outcome.results:
        print(f"  {len(outcome.results)} results are those of {options.keep}", flush=True)
    for _ in range(GUESTS):
        done = {result.name for result in outcome.results}
        left = [test for test in tests if test.name not in done]
        if not left:
            break
        script = guest_image.tests_script(left, options.user, scale, options.verbose)
        initrd = guest_image.initrd(kernel_package.modules(kernel), packages.busybox().read_bytes(), script,
                                    "uml" if accelerator == "uml" else "qemu", foreign(options.arch))
        limits = {test.name: test.timeout * scale for test in left}
        by_name = {test.name: test for test in left}
        this = guest.run(machine, accelerator, image, initrd, limits, echo(options.verbose),
                         lambda result: kept.keep(by_name[result.name], result))
        outcome.add(this)
        if not this.results:
            break
    return report(outcome, tests, time.monotonic() - started)


def foreign(architecture):
    """Where the C library of another architecture is on this machine; None for this machine's architecture."""
    if architecture not in TRIPLES:
        return None
    triple, loader = TRIPLES[architecture]
    return {"triple": triple, "loader": loader, "libraries": f"/usr/{triple}/lib"}


def choose(version, packages, options):
    """The machine, its accelerator, and the folder of its kernel."""
    if options.accel == "uml":
        return user_mode(version, packages, options)
    try:
        machine = guest.Machine(options.arch, options.memory)
    except kernel_package.Unavailable:
        if options.fast:
            return user_mode(version, packages, options)
        raise
    for accelerator in [options.accel] if options.accel else machine.accelerators():
        if accelerator == "tcg" and options.fast:
            return user_mode(version, packages, options)
        kernel = packages.kernel(version)
        if options.accel or accelerator == "tcg" or guest.works(machine, accelerator, kernel_package.image(kernel)):
            return machine, accelerator, kernel
    raise kernel_package.Unavailable("no way to boot a guest")


def user_mode(version, packages, options):
    if guest.has_processor_flag("amx_tile"):
        raise kernel_package.Unavailable("KVM boots no guest here, and the kernel of User Mode Linux 6.1 panics on processors with "
                                         "AMX: it reserves too few bytes for their registers")
    kernel = packages.user_mode_kernel()
    if not kernel_package.release(kernel).startswith(version + "."):
        raise kernel_package.Unavailable(f"KVM boots no guest here, and User Mode Linux is {kernel_package.release(kernel)}")
    return guest.UserModeMachine(options.memory), "uml", kernel


def echo(verbose):
    def show(line):
        if verbose or line.startswith("@@ broken"):
            print(line, flush=True)
    return show


def report(outcome, tests, seconds):
    """Prints every test that did not pass, then one line of sums; returns 0 or 1."""
    skip_codes = {test.name: test.skip_code for test in tests}
    passed = skipped = 0
    failed = []
    for result in outcome.results:
        if result.status == 0:
            passed += 1
        elif result.status == skip_codes[result.name]:
            skipped += 1
            print(f"  skipped {result.name}: {' '.join(result.output[-1:])}")
        else:
            failed.append(result.name)
            state = "did not end" if result.status is None else f"status {result.status}"
            print(f"  FAILED {result.name} ({state}, {result.seconds:.1f} s)")
            for line in result.output[-40:]:
                print(f"    | {line}")
    missing = len(tests) - len(outcome.results)
    if outcome.error:
        print(f"  {outcome.error}; {missing} tests were not started")
    for result in sorted(outcome.results, key=lambda result: -result.seconds)[:3]:
        print(f"  slow: {result.name} {result.seconds:.0f} s")
    print(f"{outcome.kernel or 'no kernel'}: {len(outcome.results)} tests run, {passed} passed, {len(failed)} failed, "
          f"{skipped} skipped, in {seconds:.0f} s" + (f"; failed: {' '.join(failed)}" if failed else ""), flush=True)
    return 1 if failed or outcome.error or missing else 0


if __name__ == "__main__":
    sys.exit(main())
