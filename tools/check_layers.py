#!/usr/bin/env python3
"""Checks the arrows between folders: who may include whom, and that third-party types stay out of headers.

Usage: check_layers.py [ROOT]. Prints one line per violation and exits with 1, or nothing and 0.

Every include is one of three things, and anything else is refused, so that nothing escapes the check:
"folder/file.h" from the repository's root, a header of the C++ or POSIX libraries, or a third-party header listed here.
"""
import pathlib
import re
import sys

# The product's folders. What is missing here is forbidden: sim <-> runtime, validation -> sim or runtime, runtime -> models
# or planner, schedule -> anything but base, and everybody -> tools and tests.
MAY_INCLUDE = {
    "base": set(),
    "schedule": {"base"},
    "traces": {"base", "schedule"},
    "scenarios": {"base"},
    "models": {"base", "schedule", "scenarios"},
    "planner": {"base", "schedule", "scenarios", "models"},
    "sim": {"base", "schedule", "scenarios", "models", "traces"},
    "runtime": {"base", "schedule", "scenarios", "traces"},
    "validation": {"base", "schedule", "scenarios", "traces"},
}
MAY_INCLUDE["tools"] = set(MAY_INCLUDE)

# header prefix -> folders whose .cc files may use it; no header and no CUDA source may
THIRD_PARTY = {
    "fmt/": set(MAY_INCLUDE),
    "google/protobuf/": {"schedule", "traces"},
    "boost/": {"schedule", "planner"},  # allowed; not used so far (docs/decisions/0006)
    "nlohmann/": {"traces", "scenarios", "runtime", "tools"},
    "yaml-cpp/": {"scenarios"},
    "simgrid/": {"sim"},
    "xbt/": {"sim"},
    "CLI/": {"tools"},
    "cblas.h": {"runtime"},
    "zlib.h": {"runtime"},
    "hwloc": {"runtime"},
    "numa": {"runtime"},
}
# CUDA's own libraries: the runtime's .cc, .cu and .cuh files
CUDA = ("cuda", "cublas", "cudnn", "nccl", "nvtx3/", "cooperative_groups")

STANDARD = re.compile(r"^([a-z_0-9]+|sys/[a-z_0-9]+\.h|linux/[a-z_0-9]+\.h|"
                      r"netinet/(in|tcp)\.h|(dirent|dlfcn|fcntl|netdb|poll|pthread|sched|signal|time|unistd)\.h)$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
SOURCES = {".h", ".cc", ".cu", ".cuh"}
OTHER_SOURCES = {".c", ".cpp", ".cxx", ".c++", ".hh", ".hpp", ".hxx", ".inl", ".ipp", ".tcc", ".inc"}


def violations(root):
    for folder in MAY_INCLUDE:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix in OTHER_SOURCES:
                yield f"{name}: sources end in .h, .cc, .cu or .cuh"
            if path.suffix in SOURCES:
                for number, reason in refused_lines(folder, path):
                    yield f"{name}:{number}: {reason}"


def refused_lines(folder, path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            reason = refuse(folder, path, *match.groups())
            if reason:
                yield number, reason


def refuse(folder, path, bracket, included):
    target = included.split("/")[0]
    if included.endswith(".pb.h"):
        if path.suffix != ".cc":
            return f"generated code belongs in .cc files ({included})"
        return None if target == folder else f"the file format of {target} is private to it ({included})"
    if target in MAY_INCLUDE or target == "tests":
        return refuse_arrow(folder, target, included)
    if bracket == '"':
        return f"an include in quotes is folder/file.h from the root ({included})"
    return None if STANDARD.match(included) else refuse_third_party(folder, path, included)


def refuse_arrow(folder, target, included):
    if ".." in included.split("/"):
        return f"an include in quotes is folder/file.h from the root ({included})"
    if target == folder or target in MAY_INCLUDE[folder]:
        return None
    return f"{folder} may not include {target} ({included})"


def refuse_third_party(folder, path, included):
    if included.startswith(CUDA):
        if folder != "runtime":
            return f"{folder} may not use CUDA ({included})"
        return f"third-party types stay out of headers ({included})" if path.suffix == ".h" else None
    for prefix, folders in THIRD_PARTY.items():
        if included.startswith(prefix):
            if path.suffix == ".cc":
                return None if folder in folders else f"{folder} may not use {prefix.rstrip('/')} ({included})"
            return f"third-party types belong in .cc files ({included})"
    return f"unknown header: neither standard nor a third party that tools/check_layers.py lists ({included})"


if __name__ == "__main__":
    found = list(violations(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(1 if found else 0)
