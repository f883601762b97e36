// What a fuzzer holds to be so.
#pragma once

#include <cstdio>
#include <cstdlib>

inline void expect(bool condition, const char *what) {
    if (condition) return;
    std::fprintf(stderr, "not so: %s\n", what);
    std::abort();
}
