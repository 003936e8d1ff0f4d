"""Files that are found at run time, as a graph in Python: an instance for each item."""

import json
import sys

from etl import clean, find_files, load

import minuet

with minuet.Workflow("etl") as etl:
    files = find_files.named()(folder=etl.input.folder)
    cleaned = clean.named()(file=etl.item)
    cleaned.foreach(files.output, on_item_error="continue")
    loaded = load.named()(
        parts="{{ clean.output | selectattr('total', 'defined') | list }}",
        files=files.output.len_(),
    )
    cleaned.then(loaded)
    etl.set(output=loaded.output)

if __name__ == "__main__":
    print(json.dumps(minuet.run(etl, json.loads(sys.argv[1])).output))
