# SPDX-License-Identifier: MIT
"""Draws the report: draw.py FIGURES.json PLOTS_FOLDER TABLE.md"""

import json
import pathlib
import statistics
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({
    "svg.hashsalt": "seenby", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25,
    "legend.frameon": False, "figure.facecolor": "white", "figure.constrained_layout.use": True,
})
import matplotlib.pyplot as plt  # noqa: E402  (the backend is chosen first)

LABELS = {
    "seenby": "seenby", "seenby_many": "seenby, many requests a call", "seenby_native": "seenby, -march=native",
    "boost_multiblock": "Boost fast_multiblock32<8>", "boost_multiblock_plain": "the same without -march",
    "boost_filter": "Boost filter<7>", "boost_flat_set": "Boost unordered_flat_set", "textbook": "textbook Bloom filter",
    "libbloom": "libbloom", "std_unordered_set": "std::unordered_set", "croaring": "CRoaring",
    "facade": "facade", "kernel": "bare kernel",
}
COLOURS = {"seenby": "#c0392b", "seenby_many": "#e67e22", "boost_multiblock": "#2c3e50", "boost_filter": "#2980b9",
           "textbook": "#7f8c8d"}


def median(report, name, counter):
    return statistics.median(report["figures"][name][counter])


def series(report, workload, counter):
    """{contender: [(size, median)]} of workload/contender/size."""
    found = {}
    for name in report["figures"]:
        parts = name.split("/")
        if parts[0] == workload and len(parts) == 3:
            found.setdefault(parts[1], []).append((int(parts[2]), median(report, name, counter)))
    return {contender: sorted(points) for contender, points in found.items()}


def save(figure, folder, name):
    figure.savefig(folder / name, metadata={"Date": None})
    plt.close(figure)


def draw_lines(report, folder, file, workload, counter, scale, title, x_label, y_label):
    figure, axes = plt.subplots(figsize=(7, 4.6))
    for contender, points in series(report, workload, counter).items():
        axes.plot([x for x, _ in points], [y * scale for _, y in points], marker="o", markersize=4,
                  color=COLOURS.get(contender), label=LABELS[contender])
    axes.set(xscale="log", yscale="log", title=title, xlabel=x_label, ylabel=y_label)
    axes.yaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
    axes.yaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncol=2)
    save(figure, folder, file)


def draw_memory(report, folder):
    rows = [(name.split("/")[1], median(report, name, "bytes_per_user"), median(report, name, "fpr"))
            for name in report["figures"] if name.startswith("memory/") and name != "memory/seenby_many"]
    rows.sort(key=lambda row: row[1], reverse=True)
    figure, axes = plt.subplots(figsize=(7, 4))
    bars = axes.barh([LABELS[name] for name, _, _ in rows], [size for _, size, _ in rows],
                     color=[COLOURS.get(name, "#95a5a6") for name, _, _ in rows])
    axes.bar_label(bars, [f"{size:,.0f} B, " + (f"FPR {fpr:.2%}" if fpr > 0 else "exact") for _, size, fpr in rows],
                   padding=4, fontsize=9)
    axes.set(xscale="log", title="Memory a user of 228 items, everything included",
             xlabel="bytes a user (logarithmic)")
    axes.set_xlim(100, max(size for _, size, _ in rows) * 8)
    axes.grid(axis="y", visible=False)
    save(figure, folder, "memory.svg")


def table(report):
    lines = [f"{report['cpu']}, {report['cores']} cores, kernel {report['kernel']}; {report['compiler']}; "
             f"commit {report['commit']}, {report['date']}. Medians of interleaved repetitions.", ""]
    workloads = {}
    for name, counters in report["figures"].items():
        parts = name.split("/")
        if len(parts) == 2 and "ns_per_check" in counters:
            workloads.setdefault(parts[0], []).append((median(report, name, "ns_per_check"), parts[1]))
    lines += ["| workload | contender | ns a check | times seenby's |", "|---|---|---:|---:|"]
    for workload, rows in workloads.items():
        base = dict((contender, ns) for ns, contender in rows)
        ours = base.get("seenby", base.get("kernel"))
        for ns, contender in sorted(rows):
            lines.append(f"| {workload} | {LABELS[contender]} | {ns:.3f} | {ns / ours:.2f} |")
    lines += ["", "| memory | bytes a user | FPR | ns an insert |", "|---|---:|---:|---:|"]
    for name, counters in sorted(report["figures"].items(), key=lambda item: item[1].get("bytes_per_user", [0])[0]):
        if name.startswith("memory/") and name != "memory/seenby_many":
            lines.append(f"| {LABELS[name.split('/')[1]]} | {median(report, name, 'bytes_per_user'):,.0f} | "
                         f"{median(report, name, 'fpr'):.3%} | {median(report, name, 'ns_per_insert'):.0f} |")
    if "users_10M/seenby" in report["figures"]:
        get = lambda counter: median(report, "users_10M/seenby", counter)  # noqa: E731
        lines += ["", f"Ten million users: {get('gib'):.2f} GiB ({get('bytes_per_user'):.0f} bytes each); a request of "
                  f"200 checks took {get('p50_us'):.1f} us at the median, {get('p99_us'):.1f} at p99, "
                  f"{get('p999_us'):.1f} at p99.9 and {get('max_us'):.0f} at most, of a million."]
    return "\n".join(lines) + "\n"


def main():
    report = json.loads(pathlib.Path(sys.argv[1]).read_text())
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    draw_lines(report, folder, "filter_size.svg", "filter_size", "ns_per_check", 1,
               "One filter at 1%: batch look-ups, already hashed", "items in the filter", "ns a check")
    draw_lines(report, folder, "store_size.svg", "store_size", "ns_per_request", 1e-3,
               "A request: 2 users, 100 candidates, users out of the cache", "users in the store", "µs a request")
    draw_memory(report, folder)
    pathlib.Path(sys.argv[3]).write_text(table(report))


main()
