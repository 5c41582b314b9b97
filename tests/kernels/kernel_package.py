# SPDX-License-Identifier: MIT
"""Debian's kernels and busybox for a guest: finds the newest package of a version, downloads it by apt and unpacks it.

All files are kept in one folder, so that a second run needs no network. apt has its own package lists there, for the
guest's architecture; it needs neither root nor a change of the system's configuration.
"""
import lzma
import os
import pathlib
import re
import subprocess

# The modules that a guest needs to reach the host's files; a kernel may have some of them built in.
MODULES = ["virtio_pci", "virtio_mmio", "9pnet_virtio", "9p", "overlay"]

# The releases of Debian that have kernels which the system's own package sources no longer have.
OLDER_RELEASES = {"5.10": "bullseye"}
SOURCES = """deb [signed-by={key}] http://deb.debian.org/debian-security {release}-security main
deb [signed-by={key}] http://deb.debian.org/debian {release} main
"""
KEY = "/usr/share/keyrings/debian-archive-keyring.gpg"

MODULE_FOLDERS = ["lib/modules", "usr/lib/modules", "usr/lib/uml/modules"]


class Unavailable(Exception):
    """The tests cannot run here; the message says why."""


class Packages:
    """Debian's packages of one architecture (Debian's name for it: amd64, arm64)."""

    def __init__(self, folder, architecture, release=""):
        """`release`: a release of Debian, such as bullseye; empty: the system's own package sources."""
        self.folder = pathlib.Path(folder).resolve() / architecture / release
        self.architecture = architecture
        self.release = release
        self.known = []  # the names of all packages, which apt is asked for once

    def kernel(self, version):
        """The folder of the newest kernel package of `version` ("6.1", "6.12"); fetches and unpacks it if missing."""
        if not self.release and version in OLDER_RELEASES:
            return Packages(self.folder.parent, self.architecture, OLDER_RELEASES[version]).kernel(version)
        pattern = re.compile(rf"linux-image-{re.escape(version)}\.[0-9.+~a-z-]*-{self.architecture}$")
        return self._unpacked(pattern, lambda name: "cloud" not in name and "-rt-" not in name)

    def user_mode_kernel(self):
        """The folder of User Mode Linux, a kernel that is an ordinary program, with one processor."""
        return self._unpacked(re.compile(r"user-mode-linux$"), lambda name: True)

    def busybox(self):
        folder = self._unpacked(re.compile(r"busybox-static$"), lambda name: True)
        return next(path for path in (folder / "bin/busybox", folder / "usr/bin/busybox") if path.exists())

    def _unpacked(self, pattern, accept):
        there = [path for path in self.folder.glob("*/") if pattern.match(path.name) and accept(path.name)]
        if there:
            return max(there, key=version_key)
        names = [name for name in self._names() if pattern.match(name) and accept(name)]
        if not names:
            raise Unavailable(f"apt has no package {pattern.pattern} for {self.architecture}")
        return self._fetch(max(names, key=lambda name: version_key(pathlib.Path(name))))

    def _names(self):
        if not self.known:
            self.known = self._apt("apt-cache", "pkgnames").split()
        if not self.known:
            self._apt("apt-get", "update")
            self.known = self._apt("apt-cache", "pkgnames").split()
        return self.known

    def _fetch(self, name):
        downloads = self.folder / "downloads"
        downloads.mkdir(parents=True, exist_ok=True)
        self._apt("apt-get", "download", name, cwd=downloads)
        package = next(downloads.glob(f"{name}_*.deb"))
        partial = self.folder / f"{name}.partial"
        subprocess.run(["dpkg-deb", "-x", package, partial], check=True)
        partial.rename(self.folder / name)
        package.unlink()
        return self.folder / name

    def _apt(self, *command, cwd=None):
        state = self.folder / "apt"
        (state / "lists/partial").mkdir(parents=True, exist_ok=True)
        (state / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
        (state / "status").touch()
        config = state / "apt.conf"
        config.write_text(
            f'APT {{ Architecture "{self.architecture}"; Architectures "{self.architecture}"; Sandbox::User "root"; }}\n'
            f'Dir::State "{state}"; Dir::State::status "{state}/status"; Dir::Cache "{state}/cache";\n'
            'Acquire::Languages "none";\n' + self._sources(state))
        try:
            return subprocess.run(command, cwd=cwd, env={**os.environ, "APT_CONFIG": str(config)}, check=True, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout
        except FileNotFoundError:
            raise Unavailable(f"{command[0]} is not installed: kernels come from Debian's packages") from None
        except subprocess.CalledProcessError as error:
            raise Unavailable(f"{' '.join(command[:2])} failed (no network?): {error.stderr.strip()[-300:]}") from None


    def _sources(self, state):
        """The lines of apt's configuration that name the package sources."""
        if not self.release:
            return ""
        (state / "sources.list").write_text(SOURCES.format(key=KEY, release=self.release))
        return f'Dir::Etc::sourcelist "{state}/sources.list"; Dir::Etc::sourceparts "-";\n'


def version_key(path):
    """A sort key that orders 6.12.9 before 6.12.10."""
    return [int(number) for number in re.findall(r"\d+", path.name)]


def image(kernel):
    """The bootable file in the folder of a kernel package."""
    return next(path for pattern in ("boot/vmlinu[xz]-*", "usr/bin/linux.uml") for path in kernel.glob(pattern))


def release(kernel):
    """What uname -r prints in the guest."""
    return next(path.name for folder in MODULE_FOLDERS for path in kernel.glob(folder + "/*/"))


def modules(kernel):
    """(name, bytes) of the modules in MODULES and of their dependencies, in the order in which they can be loaded."""
    files = {}
    for folder in MODULE_FOLDERS:
        for path in (kernel / folder).rglob("*.ko*"):
            files[path.name.split(".ko")[0].replace("-", "_")] = path
    loaded = {}

    def load(name):
        name = name.replace("-", "_")
        if name in loaded or name not in files:  # not in files: built into the kernel
            return
        content = files[name].read_bytes()
        if files[name].suffix == ".xz":
            content = lzma.decompress(content)
        depends = re.search(rb"\0depends=([^\0]*)\0", content)
        for other in depends.group(1).decode().split(",") if depends else []:
            load(other)
        loaded[name] = content

    for name in MODULES:
        load(name)
    return list(loaded.items())
