# SPDX-License-Identifier: MIT
"""The Conan 2 recipe of tarn: conan create packaging/conan"""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rm, rmdir
from conan.tools.scm import Version

required_conan_version = ">=2.0"


class TarnConan(ConanFile):
    name = "tarn"
    description = "A malloc that gives idle memory back, typed pools, recyclers and arenas, and a memory profiler"
    license = "MIT"
    author = "tarn contributors"
    topics = ("allocator", "malloc", "memory-pool", "memory-profiler")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "shared": [True, False],  # whether targets link libtarn.so or libtarn.a
        "hardened": [True, False],  # tarn::malloc is the build that checks every block
        "command": [True, False],  # the tarn command, with what it preloads
    }
    default_options = {"shared": True, "hardened": False, "command": False}

    # Exported from the repository, two folders above the recipe.
    _sources = ("CMakeLists.txt", "LICENSE", "README.md", "cmake/*", "src/*", "include/*", "cli/*", "profiler/*")

    def set_version(self):
        if not self.version:
            text = load(self, os.path.join(self.recipe_folder, "..", "..", "CMakeLists.txt"))
            self.version = re.search(r"project\(tarn VERSION ([0-9.]+)", text).group(1)

    def export_sources(self):
        repository = os.path.join(self.recipe_folder, "..", "..")
        for pattern in self._sources:
            copy(self, pattern, repository, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        if self.options.command:
            for package in ("cli11/[>=2.3 <3]", "fmt/[>=9]", "nlohmann_json/[>=3.11 <4]", "zstd/[>=1.5 <2]",
                            "zlib/[>=1.2.11 <2]", "elfutils/[>=0.180]"):
                self.requires(package, visible=False)

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("tarn runs on Linux, on x86_64 and armv8")
        check_min_cppstd(self, 20)
        least = {"gcc": "12", "clang": "16"}.get(str(self.settings.compiler))
        if least and Version(self.settings.compiler.version) < least:
            raise ConanInvalidConfiguration(f"tarn needs {self.settings.compiler} {least} or newer")
        if self.options.hardened and not self.options.shared:
            raise ConanInvalidConfiguration(
                "the hardened build is a shared library only; set tarn/*:shared=True too")

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["TARN_DEVELOPER"] = bool(self.options.command)
        toolchain.cache_variables["TARN_BUILD_SHARED"] = bool(self.options.shared or self.options.command)
        toolchain.cache_variables["TARN_BUILD_STATIC"] = not self.options.shared
        for part in ("BUILD_TESTING", "TARN_BUILD_TESTS", "TARN_BUILD_EXAMPLES"):
            toolchain.cache_variables[part] = False
        toolchain.generate()
        if self.options.command:
            CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="tarn_products")

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()
        libraries = os.path.join(self.package_folder, "lib")
        # Conan makes the CMake package and the pkg-config files from package_info().
        rmdir(self, os.path.join(libraries, "cmake"))
        rmdir(self, os.path.join(libraries, "pkgconfig"))
        if self.options.shared:
            rm(self, "*.a", libraries)
        elif self.options.command:
            rm(self, "libtarn-api.so*", libraries)  # the command preloads the others
        else:
            rm(self, "*.so*", libraries)

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "tarn")
        # Conan adds a target with all components, whose name would be tarn::tarn; nobody should link both mallocs.
        self.cpp_info.set_property("cmake_target_name", "tarn::all_components")
        self.cpp_info.set_property("pkg_config_name", "tarn-all-components")
        malloc = self.cpp_info.components["malloc"]
        malloc.set_property("cmake_target_name", "tarn::malloc")
        malloc.set_property("pkg_config_name", "tarn")
        malloc.libs = ["tarn-hardened" if self.options.hardened else "tarn"]
        # A linker takes from an archive, or keeps a library, only for what it misses at that point.
        replace = ["-Wl,--undefined=malloc", "-Wl,--undefined=_Znwm"]
        malloc.exelinkflags = list(replace)
        malloc.sharedlinkflags = list(replace)
        api = self.cpp_info.components["api"]
        api.set_property("cmake_target_name", "tarn::tarn")
        api.set_property("pkg_config_name", "tarn-api")
        api.libs = ["tarn-api"]
        for component in (malloc, api):
            component.system_libs = ["pthread"]
            if not self.options.shared:  # the start before all constructors, for programs only
                component.exelinkflags.append("-Wl,--undefined=tarn_program_start")
        if self.options.command:
            self.buildenv_info.prepend_path("PATH", os.path.join(self.package_folder, "bin"))
