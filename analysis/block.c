#include "analysis/block.h"

int64_t block_count(int64_t n, int64_t block, int process, int processes)
{
    int64_t whole = n / block;                          /* full blocks; one shorter block may follow */
    int64_t count = whole / processes * block, extra = whole % processes;
    if (process < extra)
        return count + block;
    return process == extra ? count + n % block : count;
}

int block_owner(int64_t i, int64_t block, int processes) { return (int)(i / block % processes); }

int64_t block_local(int64_t i, int64_t block, int processes) { return i / (block * processes) * block + i % block; }

int64_t block_global(int64_t local, int64_t block, int process, int processes)
{
    return (local / block * processes + process) * block + local % block;
}
