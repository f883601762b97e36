// The application's first pass: queries and keys that are all alike, and values that tell the key's number and the
// frame.
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) writeonly buffer Query { float query[]; };
layout(set = 0, binding = 1) writeonly buffer Key { float key[]; };
layout(set = 0, binding = 2) writeonly buffer Value { float value[]; };
layout(push_constant) uniform Constants { uint head_dim, values, frame; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= values) return;
    query[i] = 0.5;
    key[i] = 0.5;
    value[i] = float(i / head_dim + frame);
}
