// Subgroups of SUBGROUP_SIZE invocations, whatever the device's have: what they exchange goes through shared memory, and
// what one waits for all wait for. A kernel may call them only where all invocations of the workgroup come along.
#ifndef EMULATED_SUBGROUPS_GLSL
#define EMULATED_SUBGROUPS_GLSL

shared uint exchanged_words[WORKGROUP_SIZE];

uint subgroup_index() { return gl_LocalInvocationID.x / SUBGROUP_SIZE; }
uint subgroup_lane() { return gl_LocalInvocationID.x % SUBGROUP_SIZE; }

#define subgroupBarrier() barrier()
#define subgroupElect() (subgroup_lane() == 0)
#define subgroupAny(value) any_of_subgroup(value)
#define subgroupShuffleXor(value, mask) shuffle_xor(value, mask)

void exchange_word(uint word) {
    barrier(); // the last exchange's readers are done
    exchanged_words[gl_LocalInvocationID.x] = word;
    barrier();
}

bool any_of_subgroup(bool value) {
    exchange_word(uint(value));
    uint any = 0;
    for (uint i = 0; i < SUBGROUP_SIZE; ++i) any |= exchanged_words[subgroup_index() * SUBGROUP_SIZE + i];
    return any != 0;
}

float shuffle_xor(float value, uint mask) {
    exchange_word(floatBitsToUint(value));
    return uintBitsToFloat(exchanged_words[gl_LocalInvocationID.x ^ mask]);
}

#endif
