// The application's last pass: keeps what the last query got, and goes on to the next frame.
#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) buffer Frame {
    uint frame;
    float results[];
};
layout(set = 0, binding = 1) readonly buffer Output { float attended[]; };
layout(push_constant) uniform Sizes { uint head_dim, values; };

void main() {
    results[frame] = attended[values - 1];
    ++frame;
}
