#include "analysis/gather.h"

#include "analysis/cross_run.h"
#include "analysis/phase_map.h"
#include "analysis/runs.h"
#include "mpi/agree.h"

/* Whether any run keeps a core that could be compared. */
static int extracts_cores(const struct job *job)
{
    for (int a = 0; a < job->axes; a++)
        if (job->axis[a].key == key_find("probe.ace.layer"))
            return 1;
    return job->spec.probe_ace.layer > 0;
}

enum status gather(MPI_Comm comm, struct store *store, const struct job *job, const struct gather_hooks *hooks)
{
    int rank;
    MPI_Comm_rank(comm, &rank);
    enum status s = agree_root(comm, 0, rank == 0 ? runs_write(store, job) : STATUS_OK);
    if (s == STATUS_OK && job->spec.gather_cca.pairs && extracts_cores(job))
        s = cross_run_write(comm, store, job, hooks);
    if (s == STATUS_OK)
        s = agree_root(comm, 0, rank == 0 ? phase_map_write(store, job) : STATUS_OK);
    return s;
}
