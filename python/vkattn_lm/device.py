"""The device that a command computes on, and what was learned of it, kept between runs."""
import os
import re
import warnings

import vkattn
from vkattn.context import cache_folder

DEFAULT_TUNE_BUDGET = 1000  # milliseconds, on GPUs


class Device:
    """A context, which starts from what earlier runs measured, with a journal of what crashes its driver: both wherever the user
    has a folder that can be written to.

    name         of the device, as --device has it
    tune_budget  milliseconds for measuring what is not known; None: the default on GPUs, none on CPU drivers
    alike        True: kernels are chosen without measurements, of this run and of earlier ones: the same in every run
    """

    def __init__(self, name, tune_budget, alike=False):
        self.path, saved = None, b""
        if alike:
            self.context = vkattn.Context(name)
            return
        options = {"tune_budget_ms": DEFAULT_TUNE_BUDGET if tune_budget is None else tune_budget, "tune_gpus_alone": tune_budget is None}
        try:
            self.path = cache_folder() / f"vkattn-lm{'-' if name else ''}{re.sub('[^0-9a-z]+', '-', name.lower())}.saved"
            saved = self.path.read_bytes()
        except OSError:  # none yet, or no folder
            pass
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "vkattn: saved_data:")  # of another driver: it is measured anew
            try:
                self.context = vkattn.Context(name, journal=True, saved=saved, **options)
            except (OSError, vkattn.VkattnError) as error:
                if isinstance(error, vkattn.VkattnError) and "journal" not in str(error):
                    raise
                self.context = vkattn.Context(name, saved=saved, **options)

    def keep(self):
        """Writes what was measured, if anything was, and returns it in words; "" for nothing."""
        spent = self.context.tune_budget
        if spent.classes == 0 or self.path is None:
            return str(spent) if spent.classes else ""
        try:
            part = self.path.with_name(f"{self.path.name}.{os.getpid()}")
            part.write_bytes(self.context.save())
            part.replace(self.path)
        except OSError:  # no room, or no right to: the next run measures again
            pass
        return str(spent)
