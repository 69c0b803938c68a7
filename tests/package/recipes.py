# SPDX-License-Identifier: MIT
"""recipes.py SOURCE: the vcpkg port and the Conan recipe have this version and every component."""

import ast
import json
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
packaging = source / "cmake" / "packaging"
version = re.search(r'SEENBY_VERSION "(.*)"', (source / "include/seenby/version.hpp").read_text()).group(1)
# redis_article comes with redis.
components = {path.parent.name for path in source.glob("src/*/CMakeLists.txt")} - {"tool", "redis_article"}


def expect(what, expected, got):
    if expected != got:
        sys.exit("%s: expected %s, got %s" % (what, expected, got))


port = json.loads((packaging / "vcpkg/vcpkg.json").read_text())
expect("vcpkg.json, version", version, port["version-semver"])
# "core" is a name that vcpkg keeps to itself.
features = {"core" if name == "compiled" else name for name in port["features"]}
expect("vcpkg.json, features", sorted(components), sorted(features))
switches = set(re.findall(r"SEENBY_WITH_(\w+)", (packaging / "vcpkg/portfile.cmake").read_text()))
expect("portfile.cmake, switches", sorted(name.upper() for name in components | {"redis_article"}), sorted(switches))

recipe = ast.parse((packaging / "conan/conanfile.py").read_text())
table = next(node.value for node in recipe.body if isinstance(node, ast.Assign) and node.targets[0].id == "COMPONENTS")
expect("conanfile.py, COMPONENTS", sorted(components), sorted(ast.literal_eval(table)))
