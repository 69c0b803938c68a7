# SPDX-License-Identifier: MIT
"""Printers for gdb: `source PREFIX/share/seenby/gdb/seenby.py` in gdb or ~/.gdbinit.

A filter is shown as its shape, its items and its fill rather than as bytes. Only memory is read: nothing in the
program is called, so that core files work as well.
"""

import datetime

import gdb
import gdb.printing

# Larger filters are shown without their fill: reading them takes gdb seconds.
MOST_BYTES_READ = 16 << 20


def enumerator(value):
    return str(value).rsplit("::", 1)[-1]


def shape_text(shape):
    return "%s, m = %d bits, k = %d" % (enumerator(shape["layout"]), int(shape["bits"]), int(shape["hash_count"]))


def string_text(string):
    return string["_M_dataplus"]["_M_p"].string(length=int(string["_M_string_length"]), errors="replace")


def error_text(error):
    return "%s: %s" % (enumerator(error["code"]), string_text(error["message"]))


def fill_text(shape, data):
    size = int(shape["bits"]) // 8
    if size == 0 or size > MOST_BYTES_READ:
        return ""
    set_bits = bin(int.from_bytes(bytes(gdb.selected_inferior().read_memory(int(data), size)), "little")).count("1")
    return ", fill %.1f%%" % (100.0 * set_bits / (size * 8))


class Printer:
    def __init__(self, value):
        self.value = value


class DigestPrinter(Printer):
    def to_string(self):
        return "0x%016x" % int(self.value["value"])


class ShapePrinter(Printer):
    def to_string(self):
        return shape_text(self.value)


class BloomFilterPrinter(Printer):
    def to_string(self):
        shape = self.value["shape_"]
        return "BloomFilter: %d items, %s%s" % (
            int(self.value["items_"]), shape_text(shape), fill_text(shape, self.value["bits_"]["data_"]))


class UserStatusPrinter(Printer):
    def to_string(self):
        text = enumerator(self.value["state"])
        error = self.value["error"]["_M_ptr"]
        return text if int(error) == 0 else "%s: %s" % (text, error_text(error.dereference()))


class ResultPrinter(Printer):
    def to_string(self):
        held = self.value["value_"]["_M_payload"]
        if bool(held["_M_engaged"]):
            return "value " + held["_M_payload"]["_M_value"].format_string()
        return "error " + error_text(self.value["error_"])


class VoidResultPrinter(Printer):
    def to_string(self):
        held = self.value["error_"]["_M_payload"]
        if not bool(held["_M_engaged"]):
            return "success"
        return "error " + error_text(held["_M_payload"]["_M_value"])


class CandidatePoolPrinter(Printer):
    def to_string(self):
        return "CandidatePool: %d candidates" % int(self.value["size_"])


class SelectionPrinter(Printer):
    def to_string(self):
        page = self.value["state_"]
        thin = " (thin)" if bool(page["limited"]) and int(page["count"]) < int(page["limit"]) else ""
        return "Selection: %d picks%s of %d checked, %d removed, %d duplicates" % (
            int(page["count"]), thin, int(page["checked"]), int(page["removed"]), int(page["duplicates"]))


class SeenFilterPrinter(Printer):
    def to_string(self):
        with_history = "" if int(self.value["history_"]) == 0 else " with a history"
        return "SeenFilter over %s%s" % (str(self.value["store_"].type.strip_typedefs()), with_history)


class TimePrinter(Printer):
    def to_string(self):
        seconds = int(self.value["__d"]["__r"])
        try:
            return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        except (OverflowError, ValueError, OSError):
            return "%d s since 1970" % seconds


PRINTERS = gdb.printing.RegexpCollectionPrettyPrinter("seenby")
for name, pattern, printer in (
    ("Digest", "^seenby::Digest$", DigestPrinter),
    ("FilterShape", "^seenby::FilterShape$", ShapePrinter),
    ("BloomFilter", "^seenby::BloomFilter<.*>$", BloomFilterPrinter),
    ("UserStatus", "^seenby::UserStatus$", UserStatusPrinter),
    ("Result<void>", "^seenby::Result<void>$", VoidResultPrinter),
    ("Result", "^seenby::Result<.*>$", ResultPrinter),
    ("CandidatePool", "^seenby::CandidatePool<.*>$", CandidatePoolPrinter),
    ("Selection", "^seenby::Selection<.*>$", SelectionPrinter),
    ("SeenFilter", "^seenby::SeenFilter<.*>$", SeenFilterPrinter),
    ("Time", r"^std::chrono::time_point<std::chrono::(_V2::)?system_clock, std::chrono::duration<long, std::ratio<1, 1> ?> ?>$",
     TimePrinter),
):
    PRINTERS.add_printer(name, pattern, printer)
gdb.printing.register_pretty_printer(gdb.current_objfile(), PRINTERS, replace=True)
