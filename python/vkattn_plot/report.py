"""One page that needs no other file: devices, sweeps, roofline, variants, estimates, weights and losses, with their figures."""
import html

from . import bench, estimate, losses, style, weights
from .output import GENERATOR

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 1000px; margin: 2em auto;
       padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2.2em; border-bottom: 1px solid #ddd; }
table { border-collapse: collapse; margin: 1em 0; }
th, td { text-align: left; padding: .25em 1em .25em 0; vertical-align: top; }
th { border-bottom: 1px solid #999; } td { border-bottom: 1px solid #eee; } .number { text-align: right; }
svg { max-width: 100%; height: auto; }"""
POINT_COLUMNS = (("kernel", "kernel"), ("batch", "batch"), ("q_len", "queries"), ("kv_len", "keys"), ("rows", "rows"),
                 ("in_features", "input features"), ("out_features", "output features"), ("median_ms", "median ms"),
                 ("gflops", "GFLOP/s"), ("gbytes_per_s", "GB/s"), ("percent_of_roofline", "% of roofline"),
                 ("bound_by", "bound by"))
VARIANT_COLUMNS = (("variant", "variant"), ("prefill_kernel", "prefill by"), ("decode_kernel", "decode by"),
                   ("prefill_median_ms", "prefill ms"), ("decode_median_ms", "decode step ms"),
                   ("parameters", "parameters"), ("cache_bytes_per_token", "cache bytes/token"))
ESTIMATE_COLUMNS = (("name", "variant"), ("num_layers", "layers"), ("parameters", "parameters"),
                    ("weight_bytes", "weight bytes"), ("cache_bytes", "cache bytes"),
                    ("prefill_attention_flops", "prefill, attention FLOP"), ("decode_bytes", "bytes of a step"))
DEVICE_FIELDS = (("type", "type", str), ("api_version", "Vulkan", str), ("subgroup_size", "subgroup", style.digits),
                 ("max_workgroup_invocations", "invocations of a workgroup", style.digits),
                 ("max_shared_memory_bytes", "shared memory", style.bytes_text), ("device_memory_bytes", "memory", style.bytes_text))


def cell(value, tag="td"):
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    text = style.digits(value) if is_number and value >= 0 else "" if value is None else str(value)
    attribute = ' class="number"' if is_number else ""
    return f"<{tag}{attribute}>{html.escape(text)}</{tag}>"


def table(columns, records):
    """Of the columns that a record has."""
    shown = [column for column in columns if any(column[0] in record for record in records)]
    head = "".join(cell(words, "th") for _, words in shown)
    rows = ("".join(cell(record.content.get(field)) for field, _ in shown) for record in records)
    return f"<table>\n<tr>{head}</tr>\n" + "".join(f"<tr>{row}</tr>\n" for row in rows) + "</table>\n"


def picture(figure):
    text = style.encoded(figure, ".svg").decode()
    return text[text.index("<svg"):]


def rows_of(cells):
    return "".join(f"<tr>{cell(first)}{cell(second)}</tr>\n" for first, second in cells)


def device_section(document):
    text = ""
    for record in document.records:
        facts = [("driver", f"{record.text('driver_name')} {record.text('driver_info')}")]
        facts += [(words, record.text(field) if text_of is str else text_of(record.number(field)))
                  for field, words, text_of in DEVICE_FIELDS if field in record]
        kernels = [(kernel.text("name"), "yes" if kernel.flag("supported") else "no: " + kernel.text("reason"))
                   for kernel in record.records("kernels")]
        text += (f"<h3>{html.escape(record.text('name'))}</h3>\n<table>\n{rows_of(facts)}</table>\n"
                 f"<table>\n<tr><th>kernel</th><th>runs here</th></tr>\n{rows_of(kernels)}</table>\n")
    return text


def sections(documents):
    """(title, HTML) of each part of the page, in the order of a reader."""
    of_kind = {}
    for document in documents:
        of_kind.setdefault(document.kind, []).append(document)
    for document in of_kind.get("devices", ()):
        yield "Devices and their kernels", device_section(document)
    measured = [document for document in of_kind.get("bench", ()) if bench.has_peaks(document)]
    if len(measured) > 1:
        yield "Roofline", picture(bench.roofline_figure(measured))
    for document in of_kind.get("bench", ()):
        drawn = bench.swept_size(document) is not None or bench.has_peaks(document)
        yield f"{document.record.text('op').capitalize()}: {document.record.text('problem')}", (
            (picture(bench.sweep_figure([document])) if drawn else "") + table(POINT_COLUMNS, document.records))
    for document in of_kind.get("variants", ()):
        yield "Variants of attention, measured", (
            picture(bench.variants_figure(document)) + table(VARIANT_COLUMNS, document.record.records("variants")))
    for document in of_kind.get("estimate", ()):
        yield "Variants of attention, estimated", (
            picture(estimate.figure_of(document)) + table(ESTIMATE_COLUMNS, document.record.records("estimates"))
            + "".join(f"<p>{html.escape(str(line))}</p>\n" for line in document.record.content.get("verdict", ())))
    for document in of_kind.get("weights", ()):
        yield f"Attention weights of {document.record.text('name')}", picture(weights.figure_of(document))
    for document in of_kind.get("losses", ()):
        yield f"Loss of {document.record.text('model')}", picture(losses.figure_of(document))


def page(documents):
    devices = dict.fromkeys(record.content["device"] for document in documents for record in document.records
                            if isinstance(record.content.get("device"), str))
    title = html.escape("vkattn on " + next(iter(devices)) if len(devices) == 1 else "vkattn report")
    body = "".join(f"<h2>{html.escape(heading)}</h2>\n{text}" for heading, text in sections(documents))
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">{GENERATOR.decode()}<title>{title}</title>'
            f"<style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n{body}</body></html>\n").encode()
