/* cross_run.h: cross_run.nc: canonical correlations, overlaps and the consensus of all pairs of runs. */
#ifndef INVAR_ANALYSIS_CROSS_RUN_H
#define INVAR_ANALYSIS_CROSS_RUN_H

#include "analysis/gather.h"
#include "store/ncfile.h"

/* Variables of cross_run.nc beside its coordinates, the pairs of pairs.h and the flags.
 * VARIABLE(name, type, dimensions, long_name, comment) */
#define CROSS_RUN_TABLE(VARIABLE) \
    VARIABLE(samples, NCFILE_INT64, "", "probe inputs", "") \
    VARIABLE(samples_held_out, NCFILE_INT64, "", "probe inputs that were held out", "") \
    VARIABLE(null_permutations, NCFILE_INT64, "", "permutations of the null", "") \
    VARIABLE(effective_rank, NCFILE_INT, "run", "dimension of the centred core coordinates", "") \
    VARIABLE(consensus_strength, NCFILE_DOUBLE, "component", \
             "share of the runs that have a consensus direction: its squared singular value over the number of runs", \
             "the leading part of consensus_spectrum") \
    VARIABLE(consensus_spectrum, NCFILE_DOUBLE, "direction", \
             "squared singular values of the runs' bases side by side, over the number of runs", \
             "from the Gram matrix: values below 1e-8 are not significant") \
    VARIABLE(consensus_dim, NCFILE_INT64, "", \
             "consensus directions that are kept or removed: the smallest effective rank", "") \
    VARIABLE(accuracy_consensus_only, NCFILE_DOUBLE, "run", \
             "test accuracy when the probed layer keeps only the span of the leading consensus directions", "") \
    VARIABLE(accuracy_consensus_removed, NCFILE_DOUBLE, "run", \
             "test accuracy when the span of the leading consensus directions is removed from the probed layer", "")

struct cross_run_variable {
    const char *name;
    enum nc_type_name type;
    const char *dims, *long_name, *comment;
};
/* Variable number i of the table, or NULL past the end. */
const struct cross_run_variable *cross_run_variable(int i);

/* Writes DIR/cross_run.nc from the last probe of every DONE run that kept core coordinates. With fewer than two such
 * runs nothing is written, and the log says so.   collective over comm */
enum status cross_run_write(MPI_Comm comm, struct store *store, const struct job *job, const struct gather_hooks *hooks);

#endif
