/* plan.h: from the runs of a job to tiles, and what they will cost. Pure: no files, no clock, no MPI.
 *
 * A tile is a batch of neighbouring runs: the unit of scheduling, durability and storage. Tiles are fixed by the job
 * alone, never by the number of ranks. Tile t holds the runs [first, first + count) in job order. Its id is the
 * hash of its runs' ids, so it names the same work in every launch. A tile is open while a run of it is missing
 * from the store; only the missing runs are trained.
 */
#ifndef INVAR_JOB_PLAN_H
#define INVAR_JOB_PLAN_H

#include "job/job.h"

/* What one run costs. Filled from the keys alone (model and task sizes). */
struct cost {
    double flops;            /* of training and evaluation, counted as dense matrix products */
    double seconds;          /* flops at PLAN_FLOPS_PER_SECOND, and a constant: for ordering and tile size, no promise */
    double memory;           /* bytes of a rank while it trains this run */
    double disk;             /* bytes in its tile file, uncompressed */
    double parameters;
    double steps;
};

/* What a core does in small transformers, rounded down; an estimate is good to a factor of two or so. */
#define PLAN_FLOPS_PER_SECOND 8e10

/* Widest residual stream of an attention_only model. */
#define PLAN_WIDTH_MAX 65536

struct cost plan_cost(const struct spec *s);

/* Steps of an epoch (the last one may be short), and optimiser steps of the whole training. */
int64_t plan_epoch_steps(const struct spec *s);
int64_t plan_steps(const struct spec *s);

struct plan_tile {
    size_t first, count;     /* runs [first, first + count) */
    double seconds;          /* estimated */
    char id[HASH_TEXT];
};

struct plan {
    size_t runs;
    size_t tiles;
    struct plan_tile *tile;
    double seconds;          /* estimated core-seconds of all runs */
    double memory;           /* of the largest run, bytes a rank */
    double disk;             /* tiles, gather outputs and report, bytes */
    size_t files;
    double gather_memory;    /* largest rank of the gather stage, bytes */
};

/* Tiles and totals of the job. The caller frees with plan_free. */
struct plan *plan_new(const struct job *job);
void plan_free(struct plan *p);

/* The order in which tiles are handed out: longest first, ties by number. out: order[tiles]. */
void plan_order(const struct plan *p, size_t *order);

/* For people: runs, tiles, axes, core-hours, memory, disk, files, and a line "does not fit: ..." for each reason why
 * the job cannot run as it is: `memory_available` (bytes that `ranks` ranks have together) and `disk_available` in
 * bytes, `ranks`; 0 = unknown. *fits is set to 0 when it cannot, else to 1. The caller frees the text. */
char *plan_print(const struct job *job, const struct plan *p, double memory_available, double disk_available,
                 int ranks, int *fits);

#endif
