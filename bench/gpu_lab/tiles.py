"""How many multiply-adds an iteration of the key loop of vkattn's kernels has, from their specialisation constants, and which
part of a tile's rows a problem fills."""


def up(value, unit):
    return -(-value // unit)


def is_flash(module):
    """Whether it is a variant of kernels/flash.comp."""
    return module.startswith("flash") and not module.startswith("flash_addresses")


def multiply_adds(module, constants):
    """Of both products: of a lane, or matrix instructions of a subgroup; None for a module whose loop is not over tiles."""
    if is_flash(module):
        element = 8 if module.startswith("flash_wide_halves") else 4
        dims = up(constants["HEAD_DIM"], constants["DIMS_OF_CHUNK"]) * constants["DIMS_OF_CHUNK"]
        value_dims = up(constants["V_HEAD_DIM"], element * constants["COLUMNS"]) * element * constants["COLUMNS"]
        return constants["ROWS"] * constants["KEYS_OF_INVOCATION"] * (dims + value_dims)
    if module.startswith("coopmat"):
        strip = constants["MATRIX_N"] * constants["DIM_SUBGROUPS"]
        keys = constants["KEYS_OF_TILE"]
        query_steps = up(constants["HEAD_DIM"], constants["DIMS_OF_CHUNK"]) * constants["DIMS_OF_CHUNK"] // constants["MATRIX_K"]
        return constants["ROW_MATRICES"] * (up(keys, strip) * query_steps +
                                            up(keys, constants["MATRIX_K"]) * up(constants["V_HEAD_DIM"], strip))
    return None


def rows(module, constants):
    """Query rows of a workgroup's tile; None where a kernel takes as many as there are."""
    if is_flash(module):
        return constants["WORKGROUP_SIZE"] // constants["COLUMNS"] * constants["ROWS"]
    if module.startswith("coopmat"):
        subgroups = constants["WORKGROUP_SIZE"] // constants["SUBGROUP_SIZE"] // constants["DIM_SUBGROUPS"]
        return subgroups * constants["ROW_MATRICES"] * constants["MATRIX_M"]
    return None


def useful_rows(problem_rows, tile_rows):
    """The part of the rows that tiles compute which the problem has; the others are padding."""
    return 1.0 if tile_rows is None else problem_rows / (up(problem_rows, tile_rows) * tile_rows)
