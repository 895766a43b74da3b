/* How a launch should not be started, and what is said; memory limits of control groups of both versions. */
#include "check.h"

#include "base/memory.h"
#include "mpi/advice.h"
#include "mpi/limits.h"

#include <sys/stat.h>

static void expect(struct advice_facts f, const char *part)
{
    struct text t = {0};
    advice_add(&t, &f);
    if (*part)
        CHECK_HAS(text_string(&t), part);
    else
        CHECK_TEXT(text_string(&t), "");
    text_free(&t);
}

TEST(advice_on_the_start)
{
    expect((struct advice_facts){.size = 8, .node_ranks = 4, .cores = 4, .tasks = 8, .cpus_per_task = 1, .threads = 1}, "");
    expect((struct advice_facts){.size = 8, .node_ranks = 8, .cores = 4}, "8 ranks share 4 cores of this machine");
    expect((struct advice_facts){.size = 8, .node_ranks = 8, .cores = 4}, "OMPI_MCA_mpi_yield_when_idle=1");
    expect((struct advice_facts){.size = 1, .node_ranks = 1, .cores = 4, .tasks = 8}, "srun --mpi=pmix");
    expect((struct advice_facts){.size = 4, .node_ranks = 4, .cores = 8, .tasks = 8}, "only 4 ranks were started");
    expect((struct advice_facts){.size = 4, .node_ranks = 4, .cores = 32, .cpus_per_task = 8}, "--cpus-per-task=1");
    expect((struct advice_facts){.size = 4, .node_ranks = 4, .cores = 4, .threads = 8}, "8 threads a rank");
    CHECK_INT(memory_balance(), 0);
}

TEST(advice_on_a_restart)
{
    struct text t = {0};
    unsetenv("SLURM_RESTART_COUNT");
    setenv("SLURM_JOB_ID", "12", 1);
    advice_add_restart(&t, "{}");
    CHECK_TEXT(text_string(&t), "");
    setenv("SLURM_RESTART_COUNT", "2", 1);
    advice_add_restart(&t, "{\"tiles\": [], \"exit_code\": 75}");
    CHECK_TEXT(text_string(&t), "SLURM job 12, restart 2; the launch before ended with exit code 75");
    text_free(&t);
    advice_add_restart(&t, "{\"tiles\": []}");
    CHECK_HAS(text_string(&t), "ended without a word");
    text_free(&t);
    CHECK_INT(memory_balance(), 0);
}

/* A file `path` below the folder with this number in it; folders are made. */
static void put(const char *folder, const char *path, const char *number)
{
    char *command = memory_format("mkdir -p '%s/%s' && rmdir '%s/%s' && echo %s > '%s/%s'", folder, path, folder, path, number,
                                  folder, path);
    CHECK_INT(system(command), 0);
    memory_free(command);
}

TEST(the_tightest_control_group_counts)
{
    const char *tmp = getenv("TMPDIR");
    char *root = memory_format("%s/invar-groups.XXXXXX", tmp ? tmp : "/tmp");
    CHECK(mkdtemp(root) != NULL);
    put(root, "memory.max", "max");
    put(root, "slurm/memory.max", "8000000");
    put(root, "slurm/job/memory.max", "9000000");
    put(root, "slurm/job/step/memory.max", "max");
    CHECK_NEAR(limits_group_memory(root, "0::/slurm/job/step\n"), 8e6, 0);
    CHECK_NEAR(limits_group_memory(root, "0::/\n"), 0, 0);
    put(root, "memory/memory.limit_in_bytes", "9223372036854771712");
    put(root, "memory/slurm/memory.limit_in_bytes", "9223372036854771712");
    put(root, "memory/slurm/job/memory.limit_in_bytes", "7000000");
    CHECK_NEAR(limits_group_memory(root, "11:cpu,cpuacct:/\n9:memory:/slurm/job\n0::/slurm/job/step\n"), 7e6, 0);
    CHECK_NEAR(limits_group_memory(root, "9:memory:/slurm\n"), 0, 0);
    char *command = memory_format("rm -r '%s'", root);
    CHECK_INT(system(command), 0);
    memory_free(command);
    memory_free(root);
    CHECK_INT(memory_balance(), 0);
}
