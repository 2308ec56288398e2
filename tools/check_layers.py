#!/usr/bin/env python3
"""Checks the arrows between folders: who may include whom, and that third-party types stay out of headers.

Usage: check_layers.py [ROOT]. Prints one line per violation and exits with 1, or nothing and 0.
"""
import pathlib
import re
import sys

MAY_INCLUDE = {
    "base": set(),
    "schedule": {"base"},
    "traces": {"base"},
    "scenarios": {"base"},
    "models": {"base", "schedule", "scenarios"},
    "planner": {"base", "schedule", "scenarios", "models"},
    "sim": {"base", "schedule", "scenarios", "models", "traces"},
    "runtime": {"base", "schedule", "scenarios", "traces"},
    "validation": {"base", "schedule", "scenarios", "traces"},
}
# header prefix -> folders whose .cc files may use it; nobody's headers may
THIRD_PARTY = {
    "fmt/": set(MAY_INCLUDE) | {"tools"},
    "google/protobuf/": {"schedule", "traces"},
    "boost/": {"schedule", "planner"},
    "nlohmann/": {"traces", "scenarios", "tools"},
    "yaml-cpp/": {"scenarios"},
    "simgrid/": {"sim"},
    "xbt/": {"sim"},
    "CLI/": {"tools"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')


def violations(root):
    for folder in [*MAY_INCLUDE, "tools"]:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in {".h", ".cc", ".cu", ".cuh"}:
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                match = INCLUDE.match(line)
                if match:
                    reason = refuse(folder, path, match[1])
                    if reason:
                        yield f"{path.relative_to(root)}:{number}: {reason}"


def refuse(folder, path, included):
    target = included.split("/")[0]
    if target in MAY_INCLUDE and target != folder and folder != "tools" and target not in MAY_INCLUDE[folder]:
        return f"{folder} may not include {target} ({included})"
    if included.endswith(".pb.h"):
        if path.suffix != ".cc":
            return f"generated code belongs in .cc files ({included})"
        return None if target == folder else f"the file format of {target} is private to it ({included})"
    for prefix, folders in THIRD_PARTY.items():
        if included.startswith(prefix):
            if path.suffix != ".cc":
                return f"third-party types belong in .cc files ({included})"
            if folder not in folders:
                return f"{folder} may not use {prefix.rstrip('/')} ({included})"
    return None


if __name__ == "__main__":
    found = list(violations(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(1 if found else 0)
