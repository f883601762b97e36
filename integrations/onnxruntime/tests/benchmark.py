"""Times beside ONNX Runtime's processor, both in one run, turn by turn: benchmark.py [REPEATS]. Writes a table."""
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import models  # noqa: E402
import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import vkattn_onnxruntime  # noqa: E402

RNG = np.random.default_rng(1)


def numbers(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def decoder(dtype, new, past):
    """Width 512, 8 query and 4 KV heads of 64, 4 layers."""
    model = models.gqa_decoder(RNG, dtype, layers=4, heads=8, kv_heads=4, head_dim=64, ffn=1536, positions=2048)
    feeds = {"x": numbers(1, new, 512, dtype=dtype), "seqlens_k": np.array([past + new - 1], np.int32),
             "total": np.array(past + new, np.int32)}
    for layer in range(4):
        for part in ("key", "value"):
            feeds[f"past_{part}_{layer}"] = numbers(1, 4, past, 64, dtype=dtype)
    return model, feeds


def attention(dtype, new, keys):
    feeds = {"Q": numbers(1, 16, new, 64, dtype=dtype), "K": numbers(1, 4, keys, 64, dtype=dtype),
             "V": numbers(1, 4, keys, 64, dtype=dtype)}
    return models.single("Attention", feeds, ["Y"], dtype=dtype, is_causal=int(new > 1)), feeds


ROWS = [
    ("Attention, 16 heads in 4 groups, 512 x 512, causal", attention, 512, 512),
    ("Attention, 1 x 4096", attention, 1, 4096),
    ("decoder with 4-bit weights, prompt of 128", decoder, 128, 0),
    ("decoder with 4-bit weights, a token after 1024", decoder, 1, 1024),
]


def sessions(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    vkattn_onnxruntime.add(options)
    return onnxruntime.InferenceSession(model, options), onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def milliseconds(session, feeds):
    begin = time.perf_counter()
    session.run(None, feeds)
    return (time.perf_counter() - begin) * 1e3


def main(repeats):
    device = vkattn_onnxruntime.name(vkattn_onnxruntime.devices()[0])
    print(f"ONNX Runtime {onnxruntime.__version__}, {device}, median of {repeats}\n")
    print("| what | type | vkattn, ms | processor, ms | vkattn / processor |\n|---|---|---:|---:|---:|")
    for name, make, new, keys in ROWS:
        for dtype in (np.float32, np.float16):
            model, feeds = make(dtype, new, keys)
            ours, theirs = sessions(model)
            for session in (ours, theirs):
                milliseconds(session, feeds)
            pairs = [(milliseconds(ours, feeds), milliseconds(theirs, feeds)) for _ in range(repeats)]
            one, other = (statistics.median(each) for each in zip(*pairs))
            print(f"| {name} | {np.dtype(dtype).name} | {one:.1f} | {other:.1f} | {one / other:.2f} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
