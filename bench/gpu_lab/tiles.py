"""How many multiply-adds an iteration of the key loop of vkattn's kernels has, from their specialisation constants."""


def up(value, unit):
    return -(-value // unit)


def multiply_adds(module, constants):
    """Of both products: of a lane, or matrix instructions of a subgroup; None for a module whose loop is not over tiles."""
    name = module.partition(" ")[0]
    if name in ("flash", "flash_halves", "flash_wide_halves"):
        element = 8 if name == "flash_wide_halves" else 4
        dims = up(constants["HEAD_DIM"], constants["DIMS_OF_CHUNK"]) * constants["DIMS_OF_CHUNK"]
        value_dims = up(constants["V_HEAD_DIM"], element * constants["COLUMNS"]) * element * constants["COLUMNS"]
        return constants["ROWS"] * constants["KEYS_OF_INVOCATION"] * (dims + value_dims)
    if name.startswith("coopmat"):
        strip = constants["MATRIX_N"] * constants["DIM_SUBGROUPS"]
        keys = constants["KEYS_OF_TILE"]
        query_steps = up(constants["HEAD_DIM"], constants["DIMS_OF_CHUNK"]) * constants["DIMS_OF_CHUNK"] // constants["MATRIX_K"]
        return constants["ROW_MATRICES"] * (up(keys, strip) * query_steps +
                                            up(keys, constants["MATRIX_K"]) * up(constants["V_HEAD_DIM"], strip))
    return None
