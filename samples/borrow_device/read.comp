// The application's last pass: keeps what the last query of the frame got.
#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) buffer Results { float results[]; };
layout(set = 0, binding = 1) readonly buffer Output { float attended[]; };
layout(push_constant) uniform Constants { uint head_dim, values, frame; };

void main() { results[frame] = attended[values - 1]; }
