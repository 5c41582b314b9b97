# SPDX-License-Identifier: MIT
"""Builds programs against the package and runs them: malloc is replaced by tarn::malloc, kept by tarn::tarn."""

import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class TarnTestConan(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "CMakeToolchain", "VirtualRunEnv"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if not can_run(self):
            return
        for program, expected in (("with_malloc", "replaced"), ("with_tarn", "kept")):
            self.run(f"{os.path.join(self.cpp.build.bindir, program)} {expected}", env="conanrun")
        package = self.dependencies["tarn"]
        if package.options.command:
            tarn = os.path.join(package.package_folder, "bin", "tarn")
            self.run(f"{tarn} run -- true")
            self.run(f"{tarn} profile -o of_true.prof -- true")
