// Sorts numbers in shared memory, whatever their order before: a bitonic network, whose steps do not depend on them.
// Before: SORT_TYPE, the type of an element; SORT_PRECEDES(a, b), whether a goes before b: a total order;
//         SORT_LEN, the elements, a constant power of two; SORT_SIZE, the invocations of the workgroup.
#ifndef SORT_GLSL
#define SORT_GLSL

shared SORT_TYPE sorted[SORT_LEN];

// Elements are there when every invocation has come here, and sorted when it returns. A barrier follows the stores in the
// loop: at the loop's head, Mesa 26.1 lets waves of RDNA 3 pass it before the stores of the round before have been issued.
void sort_shared() {
    barrier();
    for (uint width = 2; width <= SORT_LEN; width *= 2) {
        for (uint distance = width / 2; distance > 0; distance /= 2) {
            for (uint pair = gl_LocalInvocationID.x; pair < SORT_LEN / 2; pair += SORT_SIZE) {
                uint low = pair / distance * 2 * distance + pair % distance, high = low + distance;
                bool ascends = (low & width) == 0;
                SORT_TYPE a = sorted[low], b = sorted[high];
                if (ascends ? SORT_PRECEDES(b, a) : SORT_PRECEDES(a, b)) {
                    sorted[low] = b;
                    sorted[high] = a;
                }
            }
            barrier();
        }
    }
}

#endif
