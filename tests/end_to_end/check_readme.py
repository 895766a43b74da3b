#!/usr/bin/env python3
"""Holds README.md against the program: check_readme.py commands|jobs|codes|paths|layout|snippet README INVAR [FOLDER...].

    commands     every command of a code block or in backquotes is one that program and Makefile know
    jobs         every job file that is shown is one, with as many runs as is said
    codes        the table of exit codes is that of status.h, of the man page and of `invar help`
    paths        files and pictures that are named are there
    layout       the table of the output folder against finished FOLDERs: all that lies there, and nothing else
    snippet      prints the Python code

Run from the repository's top. Prints what does not fit; exit 1.
"""
import glob
import os
import re
import shlex
import subprocess
import sys
import tempfile

README, INVAR = sys.argv[2:4]
FOLDERS = ("src", "mpi", "analysis", "tests", "jobs", "slurm", "doc")
faults = []


def lines_and_blocks():
    """The text's lines, and its code blocks as lists of lines: fenced ones, and those indented by four spaces."""
    text, blocks, block, fence = [], [], None, False
    with open(README, encoding="utf-8") as f:
        lines = f.read().split("\n")
    for line in lines:
        if line.lstrip().startswith("```"):
            fence = not fence
            block = [] if fence else None
            if fence:
                blocks.append(block)
        elif fence:
            block.append(line)
        elif line.startswith("    "):
            if block is None:
                block = []
                blocks.append(block)
            block.append(line[4:])
        elif not line.strip() and block is not None:
            block.append("")
        else:
            block = None
            text.append(line)
    return text, blocks


def rows(text, header):
    """The rows of the table whose header row begins with these cells."""
    found, inside = [], False
    for line in text:
        cells = [c.strip() for c in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if inside and not cells:
            break
        if inside and not set("".join(cells)) <= set("-: "):
            found.append(cells)
        inside = inside or cells[:len(header)] == header
    return found


def help_text():
    return subprocess.run([INVAR, "help"], capture_output=True, text=True, check=True).stdout


def known():
    """Verbs, and options with the verbs that take them (None: all)."""
    text = help_text()
    verbs = re.findall(r"^  ([a-z]+) +(?:\[?(?:JOB|DIR|VERB|WHAT)\]?|the|this) ", text, flags=re.MULTILINE)
    options = {}
    for names, rest in re.findall(r"^  (-[^ ]+(?:, --?[^ ]+)?)(.*)$", text, flags=re.MULTILINE):
        takers = re.search(r"\(([a-z, ]+)\)$", rest)
        takers = set(takers.group(1).split(", ")) if takers else None
        for name in names.split(", "):
            options[name] = takers if takers and takers <= set(verbs) else None
    return verbs, options


def check_invar(command, words, verbs, options):
    if not words or words[0] not in verbs:
        if words[:1] not in (["VERB"], ["--help"]):
            faults.append(f"{command}: no such verb")
        return
    verb, settings = words[0], []
    for i, word in enumerate(words[1:], 1):
        if word.startswith("-") and word != "-":
            if word not in options or options[word] is not None and verb not in options[word]:
                faults.append(f"{command}: {verb} has no option {word}")
            if word == "--set" and i + 1 < len(words):
                settings += ["--set", words[i + 1]]
        elif word.endswith(".yaml") and word.startswith("jobs/") and not os.path.exists(word):
            faults.append(f"{command}: {word} is not there")
    if settings and not settings[1].startswith("KEY"):
        jobs = [w for w in words if w.endswith(".yaml") and os.path.exists(w)] or ["jobs/markov-cores.yaml"]
        done = subprocess.run([INVAR, "plan", jobs[0], *settings], capture_output=True, text=True, check=False)
        if done.returncode:
            faults.append(f"{command}: {done.stderr}")


def submit_options():
    text = subprocess.run(["slurm/submit", "--help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(?<![A-Z-])--?[A-Za-z-]+", text) + ["--help"]


def check_make(command, words):
    targets = [w for w in words if "=" not in w and not w.startswith("-")]
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "BUILD")}
    done = subprocess.run(["make", "-n", f"BUILD={os.path.dirname(INVAR)}", *targets], capture_output=True, text=True,
                          env=environment, check=False)
    if done.returncode:
        faults.append(f"{command}: {done.stderr}")


def commands(text, blocks):
    lines = [line for block in blocks for line in block]
    lines += [span for line in text for span in re.findall(r"`([^`]+)`", line)]
    for line in lines:
        line = re.sub(r"^\$ ", "", line.strip())
        if re.match(r"(build/invar|invar|mpirun|make|sbatch|slurm/submit|--set)( |$)", line):
            yield line


def check_commands():
    verbs, options = known()
    if not {"plan", "run", "status"} <= set(verbs) or "--set" not in options:
        faults.append(f"`invar help` could not be read: {verbs} {options}")
    seen = []
    for command in commands(*lines_and_blocks()):
        words = shlex.split(re.sub(r"[][]", "", command), comments=True)
        seen.append(" ".join(words))
        if words[0] == "make":
            check_make(command, words[1:])
        elif words[0] in ("sbatch", "slurm/submit"):
            for word in words:
                if "/" in word and not os.path.exists(word):
                    faults.append(f"{command}: {word} is not there")
                if words[0] != "sbatch" and word.startswith("-") and word not in submit_options():
                    faults.append(f"{command}: submit has no option {word}")
        else:
            words = ["invar", "plan"] + words if words[0] == "--set" else words
            at = [i for i, w in enumerate(words) if os.path.basename(w) == "invar"]
            if at and at[0] + 1 < len(words):
                check_invar(command, words[at[0] + 1:], verbs, options)
    for needed in ("make run", "make check"):
        if needed not in seen:
            faults.append(f"`{needed}` is no command of the README")
    print(f"{len(seen)} commands")


def check_jobs():
    jobs = ["\n".join(block) for block in lines_and_blocks()[1] if re.match(r"name: ", "\n".join(block).lstrip())]
    for job in jobs:
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as f:
            f.write(job)
            f.flush()
            done = subprocess.run([INVAR, "plan", f.name], capture_output=True, text=True, check=False)
        said, planned = re.search(r"#.*?([0-9]+) runs", job), re.search(r": ([0-9]+) runs?", done.stdout)
        if done.returncode:
            faults.append(done.stderr)
        elif said and said.group(1) != planned.group(1):
            faults.append(f"{said.group(1)} runs are said, {planned.group(1)} are planned")
    if not jobs:
        faults.append("no job file is shown")


def check_codes():
    text, _ = lines_and_blocks()
    readme = {int(code): meaning for code, meaning in rows(text, ["code", "meaning"])}
    with open("src/base/status.h", encoding="utf-8") as f:
        table = re.findall(r'STATUS\([A-Z_]+, ([0-9]+), "([^"]*)"\)', f.read())
    source = {}
    for code, meaning in table:
        source[int(code)] = source.get(int(code), "") + " " + meaning
    listed = help_text().split("Exit codes", 1)[1]
    with open("doc/invar.1", encoding="utf-8") as f:
        page = f.read().split(".SH EXIT STATUS", 1)[1].split(".SH", 1)[0]
    others = {"invar help": re.findall(r"^  ([0-9]+) ", listed, flags=re.MULTILINE),
              "man page": re.findall(r"^\.B ([0-9]+)$", page, flags=re.MULTILINE)}
    for where, codes in [("README", readme)] + list(others.items()):
        if sorted(map(int, codes)) != sorted(source):
            faults.append(f"{where} has exit codes {sorted(map(int, codes))}, status.h {sorted(source)}")
    for code, meaning in readme.items():
        shared = set(re.findall(r"[a-z]{4,}", meaning.lower())) & set(re.findall(r"[a-z]{4,}", source.get(code, "").lower()))
        if not shared:
            faults.append(f'exit code {code} is "{meaning}" in README and "{source.get(code)}" in status.h')


def check_paths():
    text, _ = lines_and_blocks()
    spans = [span for line in text for span in re.findall(r"`([^` ]+)`", line)]
    paths = [s for s in spans if s.split("/")[0] in FOLDERS and "/" in s]
    paths += [path for line in text for pair in re.findall(r"\]\(([^)#]+)\)|<img[^>]* src=\"([^\"]+)\"", line)
              for path in pair if path]
    for path in paths:
        if not re.match(r"[a-z]+:", path) and not glob.glob(path):
            faults.append(f"{path} is not there")
    if len(paths) < 5:
        faults.append(f"only {paths} were found")
    faults.extend(f"a place is left open: {line}" for line in text if re.search(r"@@[A-Z]+@@", line))


def check_layout(folders):
    text, _ = lines_and_blocks()
    patterns = [p.rstrip("/") for row in rows(text, ["file", "holds"]) for p in re.findall(r"`([^`]+)`", row[0])]
    tops = {p.split("/")[0] for p in patterns}
    there = {name for folder in folders for name in os.listdir(folder)}
    for name in sorted(there - tops):
        faults.append(f"the README does not say what {name} is")
    for pattern in patterns:
        if not any(glob.glob(os.path.join(folder, pattern)) for folder in folders):
            faults.append(f"{pattern} is nowhere")


def snippet():
    _, blocks = lines_and_blocks()
    code = [b for b in blocks if any(re.match(r"(import|from) ", line) for line in b)]
    if len(code) != 1:
        faults.append(f"{len(code)} blocks of Python")
    print("\n".join(code[0]) if code else "")


what = sys.argv[1]
if what == "layout":
    check_layout(sys.argv[4:])
else:
    {"commands": check_commands, "jobs": check_jobs, "codes": check_codes, "paths": check_paths, "snippet": snippet}[what]()
print("\n".join(faults), file=sys.stderr)
sys.exit(bool(faults))
