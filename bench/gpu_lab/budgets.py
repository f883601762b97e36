"""What each pipeline may cost on each GPU, and whether it does."""
import csv

GATED = ("occupancy", "spills", "scratch_bytes", "code_bytes", "spirv_bytes")
COLUMNS = ("problem", "module", *GATED)
CODE_GROWTH = 1.1
MOST_SPIRV_BYTES = 64 << 10  # of any module that a driver is given
# Of the time that ggml's pipelines of the same shape take the same driver, in one run of a report: more is not taken for a budget.
MOST_COMPILE_RATIO = 2.5
# Of a driver that is not the budgets' own, whose compiler may do otherwise for no change of ours.
OTHER_CODE_GROWTH = 1.5
OTHER_OCCUPANCY = 0.5


def write(path, driver, rows):
    """rows: as a report's CSV holds them."""
    with open(path, "w", newline="") as file:
        file.write(f"# {driver}\n")
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for row in rows if row["side"] == "vkattn" and row["module"])


def read(path):
    """The driver that the budgets are of, and the budgets by problem and module."""
    with open(path, newline="") as file:
        driver = file.readline().removeprefix("# ").strip()
        return driver, {(row["problem"], row["module"]): row for row in csv.DictReader(file)}


def complaints(gpu, driver, rows, budget_driver, budgets):
    """A line for everything that grew beyond its budget. rows: as a report's CSV holds them."""
    same = driver == budget_driver
    for row in rows:
        where = f"{gpu}, {row['problem']}" + (f", {row['module']}" if row["module"] else "")
        if not row["module"]:
            yield f"{where}: {row['reason']}, expected pipelines"
            continue
        budget = budgets.get((row["problem"], row["module"]))
        if budget is None:
            yield f"{where}: no budget, expected one (scripts/gpu-lab budgets)"
            continue
        for name in GATED:
            allowed = budget.get(name, "")
            limit = limit_of(name, allowed, same)
            if limit is not None and row[name] != "" and exceeds(name, float(row[name]), limit):
                word = "at least" if name == "occupancy" else "at most"
                yield f"{where}: {name} {row[name]}, expected {word} {limit:g} (budget {allowed})"
        yield from too_large(where, row)


def too_large(where, row):
    if row["spirv_bytes"] != "" and float(row["spirv_bytes"]) > MOST_SPIRV_BYTES:
        yield f"{where}: spirv_bytes {row['spirv_bytes']}, expected at most {MOST_SPIRV_BYTES}"


def limit_of(name, budget, same):
    if budget == "":
        return None
    value = float(budget)
    if name == "occupancy":
        return value if same else value * OTHER_OCCUPANCY
    if name == "code_bytes":
        return value * (CODE_GROWTH if same else OTHER_CODE_GROWTH)
    if name == "spirv_bytes":
        return value * CODE_GROWTH
    return value if same or value == 0 else None  # spills of another compiler: none where there were none


def exceeds(name, value, limit):
    return value < limit if name == "occupancy" else value > limit
