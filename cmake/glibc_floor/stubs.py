#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes libraries for the linker that offer what an older glibc offers (cmake/tarn_glibc_floor.cmake).

A newer glibc still has the old version of each function that it has changed. For each function this script takes the
newest version that is not above the floor, and makes libc.so.6 and libm.so.6 with these names and versions and no code:
the linker takes the names from them, the loader of the target system finds the functions in its own glibc. What is newer
than the floor is not there, so a use of it fails at link time, unless missing.c defines it.

Usage: stubs.py FLOOR FOLDER C-COMPILER
"""

import pathlib
import re
import subprocess
import sys


def version_of(name):
    return tuple(int(part) for part in name.removeprefix("GLIBC_").split("."))


class Symbol:
    """A name that a library offers, in one version."""

    def __init__(self, fields):
        self.value, self.size, self.kind, self.binding = int(fields[1], 16), int(fields[2], 0), fields[3], fields[4]
        self.name, self.version = re.fullmatch(r"([^@]+)@@?(.+)", fields[7]).groups()

    def is_of_glibc(self):
        return re.fullmatch(r"GLIBC_[0-9.]+", self.version) and self.kind in ("FUNC", "IFUNC", "OBJECT", "NOTYPE")


def symbols_of(library):
    listing = subprocess.run(["readelf", "-W", "--dyn-syms", library], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[6] not in ("UND", "Ndx") and "@" in fields[7]:
            yield Symbol(fields)


def chosen_symbols(library, floor):
    """By name: the newest version of each that is not above the floor."""
    newest = {}
    for symbol in symbols_of(library):
        if not symbol.is_of_glibc() or version_of(symbol.version) > floor:
            continue
        if symbol.name not in newest or version_of(symbol.version) > version_of(newest[symbol.name].version):
            newest[symbol.name] = symbol
    return newest


def assembly_of(symbols, hidden):
    """Data under several names has one address, as in the library: a program may copy it, under all its names."""
    lines, last = [], None
    for symbol in sorted(symbols, key=lambda each: (each.kind == "OBJECT", each.value, each.name)):
        data = symbol.kind == "OBJECT"
        # A hidden version answers only those who ask for it by its name.
        mark, label = ("@", f"tarn_stub_{symbol.name}") if symbol.name in hidden else ("@@@", symbol.name)
        if data and symbol.value != last:
            lines += [".data", ".balign 32"]
            if last is not None:
                lines.append(f".zero {previous_size}")
            lines.append(".balign 32")
        if data:
            last, previous_size = symbol.value, max(symbol.size, 1)
        lines += [".data" if data else ".text",
                  f"{'.weak' if symbol.binding == 'WEAK' else '.globl'} {label}",
                  f".type {label}, %{'object' if data else 'function'}",
                  f"{label}:" + ("" if data else " .zero 1"),
                  f".size {label}, {max(symbol.size, 1) if data else 1}",
                  f".symver {label}, {symbol.name}{mark}{symbol.version}"]
    if last is not None:
        lines.append(f".zero {previous_size}")
    lines.append('.section .note.GNU-stack, "", %progbits')
    return "\n".join(lines) + "\n"


def make_stub(folder, compiler, soname, symbols, hidden=()):
    source, script = folder / f"{soname}.s", folder / f"{soname}.map"
    source.write_text(assembly_of(symbols, hidden))
    versions = sorted({symbol.version for symbol in symbols}, key=version_of)
    script.write_text("".join(f"{version} {{}};\n" for version in versions) or "{ local: *; };\n")
    subprocess.run([compiler, "-shared", "-nostdlib", f"-Wl,-soname,{soname}", f"-Wl,--version-script,{script}",
                    source, "-o", folder / soname], check=True)


# What missing.c can define, by one of the names.
REPLACEMENTS = ("stat", "__libc_single_threaded", "sigdescr_np", "arc4random", "__isoc23_strtol", "__libc_start_main")


def make_replacements(folder, compiler, missing, start_version):
    """An archive with an object for each, so that a program gets only those that it calls."""
    source, archive = pathlib.Path(__file__).parent / "missing.c", folder / "libmissing.a"
    archive.unlink(missing_ok=True)
    objects = []
    for name in missing:
        objects.append(folder / f"missing_{name}.o")
        subprocess.run([compiler, "-c", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-stack-protector", "-D_GNU_SOURCE",
                        "-U_FORTIFY_SOURCE", f"-DTARN_MISSING_{name}", f'-DTARN_START_VERSION="{start_version}"',
                        source, "-o", objects[-1]], check=True)
    subprocess.run(["ar", "rcs", archive, *objects], check=True)
    return archive


def main():
    if len(sys.argv) != 4 or not re.fullmatch(r"2\.\d+", sys.argv[1]):
        sys.exit("usage: stubs.py 2.NN FOLDER C-COMPILER")
    floor, folder, compiler = version_of(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    folder.mkdir(parents=True, exist_ok=True)

    def of_system(file):
        path = subprocess.run([compiler, f"-print-file-name={file}"], check=True, capture_output=True,
                              text=True).stdout.strip()
        if "/" not in path:
            sys.exit(f"the compiler {compiler} does not find glibc's {file}")
        return path

    libc = chosen_symbols(of_system("libc.so.6"), floor)
    if "__libc_start_main" not in libc:
        sys.exit(f"{of_system('libc.so.6')} offers nothing of glibc {sys.argv[1]}")
    start = libc["__libc_start_main"].version
    # The system's start file and an older libc share the work of starting in another way: missing.c stands between.
    hidden = {"__libc_start_main"} if version_of(start) < (2, 34) else set()
    make_stub(folder, compiler, "libc.so.6", libc.values(), hidden)
    make_stub(folder, compiler, "libm.so.6", chosen_symbols(of_system("libm.so.6"), floor).values())
    for name, soname in (("libpthread.so", "libpthread.so.0"), ("libdl.so", "libdl.so.2")):
        make_stub(folder, compiler, soname, [])
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(soname)

    missing = [name for name in REPLACEMENTS if name not in libc or name in hidden]
    archive = make_replacements(folder, compiler, missing, start)
    needed = subprocess.run(["readelf", "-W", "-d", of_system("libc.so.6")], check=True, capture_output=True, text=True)
    loader = re.search(r"\[(ld-linux[^\]]*)\]", needed.stdout).group(1)
    (folder / "libc.so").write_text(
        f"GROUP ( {folder / 'libc.so.6'} {archive} {of_system('libc_nonshared.a')} AS_NEEDED ( {of_system(loader)} ) )\n")
    (folder / "libm.so").write_text(f"GROUP ( {folder / 'libm.so.6'} )\n")


if __name__ == "__main__":
    main()
