// The rotation of a pair of a vector by position * frequency (Su et al., "RoFormer", 2021).
#ifndef ROTATION_GLSL
#define ROTATION_GLSL

// Position times frequency modulo one turn, in units of 2^-32 turns: exact at any position, where a float would have
// lost its fraction.
uint phase_of(uint position, uvec2 frequency) {
    uint carried, low;
    umulExtended(position, frequency.x, carried, low);
    return position * frequency.y + carried;
}

// cos and sin of a phase. Vulkan grants sin() an absolute error of 2^-11, far too much here.
vec2 cos_sin(uint phase) {
    uint quadrant = (phase + 0x20000000u) >> 30;
    float t = float(int(phase - (quadrant << 30))) * (6.28318530717958647693 / 4294967296.0); // within +- pi / 4
    float u = t * t;
    float sine = t * (1.0 + u * (-1.0 / 6.0 + u * (1.0 / 120.0 + u * (-1.0 / 5040.0 + u * (1.0 / 362880.0)))));
    float cosine = 1.0 + u * (-0.5 + u * (1.0 / 24.0 + u * (-1.0 / 720.0 + u * (1.0 / 40320.0))));
    vec2 rotated = (quadrant & 1u) == 0u ? vec2(cosine, sine) : vec2(-sine, cosine);
    return (quadrant & 2u) == 0u ? rotated : -rotated;
}

// cos and sin times the factor that lengthens or shortens the rotated vector. frequency: turns per position, as 64-bit
// fixed point (low word, high word), and that factor.
vec2 rotation_of(uint position, uvec3 frequency) {
    return uintBitsToFloat(frequency.z) * cos_sin(phase_of(position, frequency.xy));
}

#endif
