# SPDX-License-Identifier: MIT
"""Conan 2: conan create cmake/packaging/conan -o "&:redis=True"."""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load

# Each component, and what it needs beside xxHash.
COMPONENTS = {
    "core": None,
    "ingest": "nlohmann_json/3.11.3",
    "lmdb": "lmdb/0.9.32",
    "postgres": "libpq/15.5",
    "prometheus": "prometheus-cpp/1.2.4",
    "redis": "hiredis/1.2.0",
    "sqlite": "sqlite3/3.45.0",
    "text": "icu/74.2",
    "token": "openssl/[>=1.1.1 <4]",
}


class Seenby(ConanFile):
    name = "seenby"
    description = "Which of these items has this user already seen? Bloom filters for C++20"
    license = "MIT"
    topics = ("bloom-filter", "recommender", "redis")
    settings = "os", "arch", "compiler", "build_type"
    options = {component: [True, False] for component in COMPONENTS}
    default_options = {component: False for component in COMPONENTS}

    @property
    def root(self):
        return os.path.join(self.recipe_folder, "..", "..", "..")

    def set_version(self):
        header = load(self, os.path.join(self.root, "include", "seenby", "version.hpp"))
        self.version = re.search(r'SEENBY_VERSION "(.*)"', header).group(1)

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*"):
            copy(self, pattern, self.root, self.export_sources_folder)

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires("xxhash/[>=0.8.0 <0.9]", transitive_headers=True)
        for component, package in COMPONENTS.items():
            if package and self.options.get_safe(component):
                self.requires(package)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for switch in ("TOOL", "TESTS", "EXAMPLES"):
            toolchain.variables["SEENBY_BUILD_" + switch] = "OFF"
        for component in COMPONENTS:
            toolchain.variables["SEENBY_WITH_" + component.upper()] = "ON" if self.options.get_safe(component) else "OFF"
        toolchain.variables["SEENBY_WITH_REDIS_ARTICLE"] = toolchain.variables["SEENBY_WITH_REDIS"]
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        # The package's own config knows its components and what they need.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs.append(os.path.join("lib", "cmake", "seenby"))
