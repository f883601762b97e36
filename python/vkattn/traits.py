"""Traits of a device: what is known of it beyond what it reports (docs/devices.md)."""
from . import _abi


def traits_of(traits):
    """The vkattn_trait array of {name: number}, or of the text "name=number,name=number"."""
    pairs = _parse(traits) if isinstance(traits, str) else list(traits.items())
    return (_abi.Trait * len(pairs))(*(_abi.Trait(_number_of(name), _checked(name, value)) for name, value in pairs))


def _parse(text):
    parts = [part.partition("=") for part in text.split(",")] if text else []
    for name, equals, value in parts:
        if not (value.isascii() and value.isdigit()):
            raise ValueError(f'traits: "{name}{equals}{value}", expected name=number')
    return [(name, int(value)) for name, _, value in parts]


def _number_of(name):
    if name not in _abi.TRAIT_NAMES:
        raise ValueError(f'traits: "{name}" is unknown, expected one of {", ".join(_abi.TRAIT_NAMES)}')
    return _abi.TRAIT_NAMES[name]


def _checked(name, value):
    if not 0 <= int(value) < 2**64:
        raise ValueError(f"traits: {name} {value}, expected a number from 0 to 2**64 - 1")
    return int(value)
