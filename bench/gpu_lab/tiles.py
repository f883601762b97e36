"""How many multiply-adds an iteration of the key loop of vkattn's kernels has, from their specialisation constants."""

FLASH_COLUMNS = 8  # COLUMNS_OF_FLASH_TILE, KEYS_OF_FLASH_TILE of shaders/interface/attention.h
FLASH_KEYS = 32
FLASH_CHUNK = 32  # dims


def up(value, unit):
    return -(-value // unit)


def multiply_adds(module, constants):
    """Of both products: of a lane, or matrix instructions of a subgroup; None for a module whose loop is not over tiles."""
    name = module.partition(" ")[0]
    if name == "flash":
        dims = sum(up(constants[size], FLASH_CHUNK) * FLASH_CHUNK for size in ("HEAD_DIM", "V_HEAD_DIM"))
        return constants["ROWS"] * FLASH_KEYS // FLASH_COLUMNS * dims
    if name.startswith("coopmat"):
        strip = constants["MATRIX_N"] * constants["DIM_SUBGROUPS"]
        keys = constants["KEYS_OF_TILE"]
        query_steps = up(constants["HEAD_DIM"], constants["DIMS_OF_CHUNK"]) * constants["DIMS_OF_CHUNK"] // constants["MATRIX_K"]
        return constants["ROW_MATRICES"] * (up(keys, strip) * query_steps +
                                            up(keys, constants["MATRIX_K"]) * up(constants["V_HEAD_DIM"], strip))
    return None
