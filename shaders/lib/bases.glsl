// Where a tensor starts inside its bound range. A descriptor's offset must be a multiple of the device's alignment (at
// most 256 bytes), so what is left of the caller's offset comes as one byte per binding in the push constants.
// Before: a push constant block `push` whose first member is `uint bases[4]`.

uint base_bytes(const uint binding) { return bitfieldExtract(push.bases[binding / 4], int(binding % 4) * 8, 8); }
