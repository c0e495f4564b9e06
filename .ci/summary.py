"""Says what ran, what was skipped and what failed: python .ci/summary.py FOLDER

FOLDER holds `steps` (status, name and remark per line, tabs between) and pytest's reports in `junit/`.
The last line is "N passed, N failed, N skipped"; steps and tests both count.
"""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path


def main(folder):
    steps = [line.split("\t") for line in (folder / "steps").read_text().splitlines()]
    tests = {}  # name -> (status, message); a test that ran in one step is not skipped in another
    for report in sorted((folder / "junit").glob("*.xml")):
        for case in ET.parse(report).iter("testcase"):
            name = f"{case.get('classname')}::{case.get('name')}"
            bad = case.find("failure") if case.find("failure") is not None else case.find("error")
            skipped = case.find("skipped")
            if bad is not None:
                tests[name] = ("failed", bad.get("message", ""))
            elif skipped is None:
                tests.setdefault(name, ("passed", ""))
                if tests[name][0] == "skipped":
                    tests[name] = ("passed", "")
            else:
                tests.setdefault(name, ("skipped", skipped.get("message", "")))

    results = [(status, name, remark) for status, name, remark in steps]
    results += [(status, name, message) for name, (status, message) in tests.items()]
    print("\n======== summary")
    for status, name, remark in steps:
        print(f"{status:8} {name} ({remark})")
    for wanted in ("skipped", "failed"):
        chosen = [(n, m) for s, n, m in results if s == wanted]
        if chosen:
            print(f"\n{wanted}:")
        for name, message in chosen:
            print(f"  {name}: {message.splitlines()[0] if message else ''}")
    count = {s: sum(r[0] == s for r in results) for s in ("passed", "failed", "skipped")}
    print("\n" + ", ".join(f"{n} {status}" for status, n in count.items()))
    return 1 if count["failed"] or not tests else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
