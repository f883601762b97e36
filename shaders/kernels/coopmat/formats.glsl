// What coopmat knows of the types of K and V before it reads them.
#ifndef COOPMAT_FORMATS_GLSL
#define COOPMAT_FORMATS_GLSL

#include "attention/parameters.glsl"
#include "common/matrix_element.glsl"

#ifdef LOADS_AHEAD // they are of the query's type
#define KEY_FORMAT MATRIX_FORMAT
#define VALUE_FORMAT MATRIX_FORMAT
#endif

#endif
