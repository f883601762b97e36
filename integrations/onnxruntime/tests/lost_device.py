"""python3 lost_device.py, with a driver that loses its device (integrations/driver.c): a line for each thing that a program then meets.
First the steps of a decoder, until one fails; the same session again; another session; another one that ONNX Runtime may retry on the
processor, as it does by itself in Python; all gone, the library registered anew, and a session on the new device."""
import sys

import models
import numpy as np
import onnxruntime
from conftest import assert_close, cpu_session, run, vkattn_onnxruntime, vkattn_session
from test_models import Decoder, gqa_steps


def session_of(model, **arguments):
    """A session that tells its errors: by itself ONNX Runtime's in Python goes on without the provider."""
    session = vkattn_session(model, **arguments)
    session.disable_fallback()
    return session


def told(what, do):
    """Writes how the call ended. Says whether it did well."""
    try:
        do()
    except Exception as error:  # noqa: BLE001 - which one it is is written
        print(f"{what}: {type(error).__name__}: {error}", flush=True)
        return False
    print(f"{what}: done", flush=True)
    return True


def main():
    rng = np.random.default_rng(1)
    model = models.gqa_decoder(rng)
    attention = models.single("Attention", {name: rng.standard_normal((1, 2, 4, 8)).astype(np.float32) for name in "QKV"}, ["Y"])
    feeds = {name: rng.standard_normal((1, 2, 4, 8)).astype(np.float32) for name in "QKV"}
    expected = run(cpu_session(attention), feeds)["Y"]
    decoder = Decoder(session_of(model))
    steps = list(gqa_steps(rng, np.float32, 128, 1, (9, *[1] * 40)))
    for number, step in enumerate(steps):
        if not told(f"step {number}", lambda step=step: decoder.step(step, np.float32)):
            break
    else:
        sys.exit("the device was not lost")
    told("the same session", lambda: decoder.step(steps[0], np.float32))
    told("another session", lambda: run(session_of(attention, alone=True), feeds))
    told("with its fallback", lambda: assert_close(run(vkattn_session(attention), feeds)["Y"], expected))
    del decoder
    onnxruntime.unregister_execution_provider_library(vkattn_onnxruntime.PROVIDER)
    told("registered anew", lambda: assert_close(run(session_of(attention, alone=True), feeds)["Y"], expected))


if __name__ == "__main__":
    main()
