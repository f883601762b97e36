"""Writes the devices that the provider offers; fails where there is none."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import onnxruntime  # noqa: E402
import vkattn_onnxruntime  # noqa: E402

found = vkattn_onnxruntime.devices()
print(f"ONNX Runtime {onnxruntime.__version__}:", ", ".join(vkattn_onnxruntime.name(each) for each in found) or "no device")
sys.exit(not found)
