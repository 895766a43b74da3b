#!/usr/bin/python3
"""report.html is well-formed, self-contained, and holds every claim and every figure."""
import html.parser
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

DIR, BUILD = os.environ["TMPDIR"], os.environ["BUILD"]
TESTS = {"markov": "report_of_a_job_without_axes", "map": "report_of_a_job_with_two_axes"}
VOID = {"meta", "br", "hr", "img", "link", "input"}
failures = 0


def check(name, good, detail=""):
    global failures
    failures += not good
    print(f"{'ok' if good else 'not ok'} {name}", flush=True)
    if not good:
        print(detail, file=sys.stderr)


class Balanced(html.parser.HTMLParser):
    """Every element that is opened is closed, in order."""

    def __init__(self):
        super().__init__()
        self.open, self.faults = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)


def text_of(element):
    return "".join(element.itertext())


def check_page(folder):
    path = os.path.join(DIR, folder, "report.html")
    with open(path, encoding="utf-8") as f:
        page = f.read()
    try:
        tree = xml.fromstring(page.split("\n", 1)[1])           # without the doctype
    except xml.ParseError as error:
        check(f"html_{folder}_is_well_formed", False, error)
        return
    check(f"html_{folder}_is_well_formed", page.startswith("<!DOCTYPE html>\n"))
    parser = Balanced()
    parser.feed(page)
    check(f"html_{folder}_is_balanced", not parser.faults and not parser.open, (parser.faults, parser.open))
    ids = re.findall(r"\bid=['\"]([^'\"]*)", page)
    check(f"html_{folder}_ids_are_unique", len(ids) == len(set(ids)), sorted(i for i in set(ids) if ids.count(i) > 1))
    used = set(re.findall(r"url\(#([^)]*)\)", page)) | set(re.findall(r"href=['\"]#([^'\"]*)", page))
    check(f"html_{folder}_ids_are_there", used <= set(ids), used - set(ids))
    outside = re.findall(r"(?:src|href)=['\"](?!#|data:)([^'\"]*)", page) + re.findall(r"url\((?!#)[^)]*\)|@import", page)
    check(f"html_{folder}_is_self_contained", not outside and "<script" not in page, outside)
    drawn = sorted(n[:-4] for n in os.listdir(os.path.join(DIR, folder, "figures")) if n.endswith(".svg"))
    figures = [f for f in tree.iter() if f.tag == "figure"]
    check(f"html_{folder}_has_every_figure", sorted(f.get("id") for f in figures) == drawn and len(drawn) >= 7, drawn)
    svg = "{http://www.w3.org/2000/svg}svg"
    check(f"html_{folder}_figures_have_pictures_and_captions",
          all(f.find(svg) is not None and len(text_of(f.find("figcaption"))) > 20 for f in figures))
    captions = " ".join(text_of(f.find("figcaption")) for f in figures)
    check(f"html_{folder}_captions_have_numbers", not re.search(r"\bnan\b|\binf\b", captions), captions)
    check(f"html_{folder}_is_small", len(page) < 4e6, len(page))
    return tree


def check_claims(tree):
    rows = [[text_of(cell) for cell in row] for row in tree.iter("tr")]
    table = {row[1]: row for row in rows if len(row) == 5}
    expected = {"core_dim == 3": ("holds", "3 .. 3 over 8 runs"), "accuracy_test >= 0.7495": ("fails", None),
                "no_such_variable > 1": ("unknown", None), "0.02 <= projector_overlap <= 0.04": ("holds", None)}
    for claim, (verdict, measured) in expected.items():
        row = table.get(claim, ["", "", "", "", ""])
        check(f"html_claim_{verdict}_{claim}", row[0] == verdict and row[2] and measured in (None, row[2]), row)
    check("html_claim_says", table["core_dim == 3"][3] == "three directions, for every <seed> & all", table)


def check_grey(tree):
    """Points of the map that have no value are drawn as such."""
    for figure in tree.iter("figure"):
        if figure.get("id") in ("map_outcome", "map_accuracy_test"):
            grey = "221,221,221" in xml.tostring(figure, encoding="unicode").replace(", ", ",")
            check(f"html_{figure.get('id')}_shows_missing_points", grey)


for name in TESTS:
    made = subprocess.run([os.path.join(BUILD, "tests/analysis/test_report"), TESTS[name]], capture_output=True, text=True,
                          check=False)
    check(f"html_{name}_is_made", made.returncode == 0, made.stdout + made.stderr)
    page_tree = check_page(name)
    if name == "markov" and page_tree is not None:
        check_claims(page_tree)
    if name == "map" and page_tree is not None:
        check_grey(page_tree)
sys.exit(failures != 0)
