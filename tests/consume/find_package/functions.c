/* Functions of a program's own, compiled without a device: a text that is none, so that it takes no time. */
#include <stdio.h>
#include <vkattn/jit.h>

static void take(void *user, const void *data, uint64_t bytes) {
    (void)user;
    (void)data;
    printf("%u bytes", (unsigned)bytes);
}

int main(void) {
    const vkattn_jit_info info = {VKATTN_SIZED(vkattn_jit_info),
                                  .functions = "float twice(float x) { return 2.0 * x; }", .name = "twice.glsl"};
    if (vkattn_jit_compile(&info, take, NULL) == VKATTN_SUCCESS) return 1;
    puts(vkattn_jit_last_error());
    return 0;
}
