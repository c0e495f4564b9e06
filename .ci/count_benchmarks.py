"""Fails unless asv has measured something: python .ci/count_benchmarks.py FOLDER_OF_ASV_CONF"""

import json
import re
import sys
from pathlib import Path


def main(folder):
    conf = (folder / "asv.conf.json").read_text()
    results = folder / re.search(r'"results_dir":\s*"([^"]+)"', conf).group(1)
    measured, missing = 0, []
    for path in results.glob("*/*.json"):
        if path.name == "machine.json":
            continue
        for name, row in json.loads(path.read_text())["results"].items():
            values = row[0] if isinstance(row, list) else row
            values = values if isinstance(values, list) else [values]
            if any(v is not None for v in values):
                measured += 1
            else:
                missing.append(name)
    print(f"{measured} benchmarks measured, {len(missing)} without a result")
    for name in missing:
        print(f"  without a result: {name}")
    return 0 if measured and not missing else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
