// f8_e5m2 of OCP: the upper byte of an f16.

#ifdef ENCODES_BLOCKS
EncodedBlock f8_e5m2_encode(float values[32]) { return float8_encode(values, 2, -14, largest_float8(FORMAT_F8_E5M2)); }
#endif
