// Rows of f32 through a device address: four neighbouring elements a load.

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Blocks { vec4 values[]; };

// The address `blocks` blocks of four elements further on. What is loaded from it at constant indices then costs no
// address arithmetic.
uvec2 advance_address(uvec2 address, uint blocks) {
    uint carry;
    uint low = uaddCarry(address.x, blocks * 16, carry);
    return uvec2(low, address.y + carry);
}

vec4 load_block(uvec2 address, uint block) { return Blocks(address).values[block]; }
