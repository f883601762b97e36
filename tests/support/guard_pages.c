/* Loaded before a program (LD_PRELOAD): memory that is allocated by posix_memalign, as older llvmpipes allocate device
 * memory, ends right before a page that nobody may touch, has one in front, and becomes such pages once it is freed. A
 * kernel that reads or writes beyond the memory of a buffer then crashes, through an unchecked device address too.
 * Exits with 77, "skipped", where a driver has its memory from elsewhere. Linux. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t page = 4096, arena_bytes = (size_t)1 << 40, fewest = 100;
static const int anonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
static char *arena;
static atomic_size_t taken, allocations;

__attribute__((constructor)) static void reserve(void) {
    char *reserved = mmap(NULL, arena_bytes, PROT_NONE, anonymous, -1, 0);
    if (reserved != MAP_FAILED) arena = reserved;
}

__attribute__((destructor)) static void skip_without_allocations(void) {
    if (allocations >= fewest) return;
    fflush(NULL);
    _exit(77);
}

static int is_guarded(const char *pointer) {
    return arena != NULL && pointer >= arena && pointer < arena + arena_bytes;
}

/* A page with the length of it all, the pages of the memory, a page; the first and the last are not to be touched. The
 * memory begins in its first page. */
int posix_memalign(void **result, size_t alignment, size_t bytes) {
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment, pages = (rounded + page - 1) / page;
    const size_t length = (pages + 2) * page;
    if (arena == NULL || alignment < 64 || alignment > page || bytes == 0 || rounded < bytes ||
        length > arena_bytes / 2 || taken > arena_bytes / 2) {
        int (*real)(void **, size_t, size_t) = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
        return real(result, alignment, bytes);
    }
    char *first = arena + atomic_fetch_add(&taken, length);
    if (mprotect(first, length - page, PROT_READ | PROT_WRITE) != 0) return ENOMEM;
    *(size_t *)first = length;
    mprotect(first, page, PROT_NONE);
    *result = first + length - page - rounded;
    ++allocations;
    return 0;
}

void free(void *pointer) {
    static void (*real)(void *);
    if (is_guarded(pointer)) {
        char *first = (char *)((uintptr_t)pointer / page * page) - page;
        mprotect(first, page, PROT_READ);
        mmap(first, *(size_t *)first, PROT_NONE, anonymous | MAP_FIXED, -1, 0);
        return;
    }
    if (real == NULL) real = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    real(pointer);
}
