#include "kern/kern.h"

#include "kern/openblas.h"

#include <stdlib.h>
#include <string.h>

#if defined __x86_64__
#define ISA_LIST(ISA) \
    ISA(avx512, __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && \
                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && \
                __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx2") && \
                __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) \
    ISA(avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) \
    ISA(scalar, 1)
#elif defined __aarch64__
#define ISA_LIST(ISA) ISA(neon, 1) ISA(scalar, 1)
#else
#define ISA_LIST(ISA) ISA(scalar, 1)
#endif

#define ISA(name, supported) \
    extern const struct kern_f32 kern_f32_##name; \
    extern const struct kern_f64 kern_f64_##name;
ISA_LIST(ISA)
#undef ISA

enum {
#define ISA(name, supported) ISA_##name,
    ISA_LIST(ISA)
#undef ISA
    ISA_COUNT
};

static const struct isa {
    const char *name;
    const struct kern_f32 *f32;
    const struct kern_f64 *f64;
} isas[] = {
#define ISA(name, supported) {#name, &kern_f32_##name, &kern_f64_##name},
    ISA_LIST(ISA)
#undef ISA
};

static const char *pinned;
static int with_openblas;
static struct kern_f32 openblas_f32[ISA_COUNT];
static struct kern_f64 openblas_f64[ISA_COUNT];

static int is_supported(int i)
{
    switch (i) {
#define ISA(name, supported) case ISA_##name: return supported;
        ISA_LIST(ISA)
#undef ISA
    }
    return 0;
}

static enum status choose(const char *wanted, const struct isa **found)
{
    for (int i = 0; i < ISA_COUNT; i++) {
        if (wanted && *wanted && strcmp(wanted, isas[i].name))
            continue;
        if (is_supported(i)) {
            *found = &isas[i];
            return STATUS_OK;
        }
        if (wanted && *wanted)
            return status_fail(STATUS_ENVIRONMENT, "INVAR_ISA is %s, but this processor has no %s: unset it, or set it "
                               "to an instruction set of this machine", wanted, wanted);
    }
#define ISA(name, supported) " " #name
    return status_fail(STATUS_ENVIRONMENT, "INVAR_ISA is \"%s\": expected one of" ISA_LIST(ISA) ", or not set", wanted);
#undef ISA
}

static enum status current(const struct isa **found)
{
    return choose(pinned ? pinned : getenv("INVAR_ISA"), found);
}

enum status kern_get(const struct kern_f32 **f32, const struct kern_f64 **f64)
{
    const struct isa *isa = NULL;
    enum status s = current(&isa);
    if (s != STATUS_OK)
        return s;
    if (f32)
        *f32 = with_openblas ? &openblas_f32[isa - isas] : isa->f32;
    if (f64)
        *f64 = with_openblas ? &openblas_f64[isa - isas] : isa->f64;
    return STATUS_OK;
}

enum status kern_use_openblas(int openblas)
{
    enum status s = openblas ? openblas_begin() : STATUS_OK;
    if (s != STATUS_OK)
        return s;
    with_openblas = openblas;
    for (int i = 0; openblas && i < ISA_COUNT; i++) {
        openblas_f32[i] = openblas_products_f32(isas[i].f32);
        openblas_f64[i] = openblas_products_f64(isas[i].f64);
    }
    return STATUS_OK;
}

const char *kern_isa_name(void)
{
    const struct isa *isa = NULL;
    return current(&isa) == STATUS_OK ? isa->name : "none";
}

const char *kern_isa_at(int i) { return i < 0 || i >= ISA_COUNT ? NULL : isas[i].name; }

enum status kern_pin(const char *isa)
{
    const struct isa *found = NULL;
    enum status s = isa ? choose(isa, &found) : STATUS_OK;
    if (s == STATUS_OK)
        pinned = found ? found->name : NULL;
    return s;
}

size_t kern_attention_rows(size_t queries, const int32_t *position)
{
    size_t rows = 0;
    for (size_t c = 0; c < kern_chunks(queries); c++) {
        size_t last = (c + 1) * KERN_CHUNK < queries ? (c + 1) * KERN_CHUNK : queries;
        rows += kern_chunks((size_t)position[last - 1] + 1) * KERN_CHUNK;
    }
    return rows;
}
