# SPDX-License-Identifier: MIT
"""Puts what was measured into a report, beside what it has of other parts: collect.py PARTS_FOLDER REPORT.json"""

import datetime
import json
import pathlib
import re
import subprocess
import sys


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def processor():
    match = re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match.group(1) if match else "unknown"


def compiler(build):
    cache = (build / "CMakeCache.txt").read_text()
    path = re.search(r"^CMAKE_CXX_COMPILER:[A-Z]+=(.*)$", cache, re.MULTILINE).group(1)
    return output_of(path, "--version").splitlines()[0]


def commit():
    dirty = "" if not output_of("git", "status", "--porcelain", "--untracked-files=no") else " with changes"
    return output_of("git", "rev-parse", "--short=12", "HEAD") + dirty


def part_of(name):
    """The part of the report that a figure is of."""
    if name.startswith("kernel/"):
        return "kernels"
    for part in ("threads", "record_grown", "memory", "filter_size", "store_size", "users_10M"):
        if name.startswith(part + "/"):
            return part
    return "redis" if name.startswith(("read_", "write_")) else "speed"


def today():
    return datetime.datetime.now(datetime.timezone.utc).date().isoformat()


def gate(parts):
    """What the gate's scenarios printed; nothing where they were not run."""
    printed = [part.read_text().strip() for part in sorted(parts.glob("gate_*.txt"))]
    return {"commit": commit(), "date": today(), "printed": printed} if printed else None


def neon_cycles(parts):
    """{loop: cycles a check}, as llvm-mca computes them; empty where that was not run."""
    file = parts / "neon_cycles.txt"
    lines = file.read_text().splitlines()[1:] if file.exists() else []
    return {name: float(cycles) for name, cycles in (line.split() for line in lines)}


def main():
    parts, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    keep = ("ns_per_check", "ns_per_request", "ns_per_insert", "bytes_per_user", "fpr", "gib", "p50_us", "p99_us",
            "p999_us", "p9999_us", "max_us", "waits", "ns_per_record", "requests_per_second", "server_cpu_us",
            "items_per_second")
    last = json.loads(out.read_text()) if out.exists() else {}
    figures, context, measured = {}, {}, {}
    for part in sorted(parts.glob("*.json")):
        data = json.loads(part.read_text())
        # A part named after a kernel belongs to that kernel, when it is the one that served.
        kernel = part.stem.removeprefix("kernel_") if part.stem.startswith("kernel_") else None
        if kernel is not None and data["context"].get("seenby_kernel") != kernel:
            continue
        prefix = "" if kernel is None else f"kernel/{kernel}/"
        if "seenby_kernel" in data["context"] and kernel is None:
            context = data["context"]
        measured["kernels" if kernel else part.stem] = {"commit": data["context"]["commit"], "date": today()}
        for run in data["benchmarks"]:
            if run.get("run_type") != "iteration" or run.get("error_occurred"):
                continue
            name = re.sub(r"/(iterations:\d+|manual_time|real_time|repeats:\d+)", "", run["name"])
            entry = figures.setdefault(prefix + name, {})
            for counter in keep:
                if counter in run:
                    entry.setdefault(counter, []).append(float(f"{run[counter]:.6g}"))
    kept = {name: entry for name, entry in last.get("figures", {}).items() if part_of(name) not in measured}
    report = {
        "cpu": processor(),
        "cores": context.get("num_cpus", last.get("cores")),
        "caches": [f"L{c['level']} {c['type']} {c['size'] // 1024} KiB" for c in context.get("caches", [])],
        "kernel": context.get("seenby_kernel", last.get("kernel")),
        "compiler": compiler(parts.parent),
        "measured": last.get("measured", {}) | measured,
        "figures": kept | figures,
        "neon_cycles": neon_cycles(parts) or last.get("neon_cycles", {}),
        "gate": gate(parts) or last.get("gate"),
    }
    out.write_text(json.dumps(report, indent=1) + "\n")


main()
