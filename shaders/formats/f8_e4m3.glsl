// f8_e4m3 of OCP (e4m3fn): four bits of exponent, whose bias is 7, three of fraction; no infinity, and one NaN of each sign.

#ifdef ENCODES_BLOCKS
EncodedBlock f8_e4m3_encode(float values[32]) { return float8_encode(values, 3, -6, largest_float8(FORMAT_F8_E4M3)); }
#endif
