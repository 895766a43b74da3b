/* claim.h: an expected property of the results, written in the job file.
 *
 *     claims:
 *       - core_dim == 3
 *       - 0.02 <= projector_overlap <= 0.04
 *       - accuracy_core_only >= accuracy_test - 0.001
 *       - {that: min(canonical_correlation) >= 0.9, says: cores agree across seeds, source: ace.md 2}
 *
 * Grammar (comparisons may be chained, as in mathematics):
 *     claim   = sum (("==" | "!=" | "<" | "<=" | ">" | ">=") sum)+
 *     sum     = product (("+" | "-") product)*
 *     product = factor (("*" | "/") factor)*
 *     factor  = number | "-" factor | "(" sum ")" | variable | reducer "(" sum ")" | "abs" "(" sum ")" | "log" "(" sum ")"
 *             | "slope" "(" sum "," sum ")"
 *     variable = name [ "[" index "]" ]          index: a component, from 0, or the name of a coordinate: coordinate[beta_12]
 *     reducer = min | max | mean | median | std | count | share
 * A name is a variable of runs.nc or cross_run.nc, or a word of a CF flag (DONE). A claim over a variable with a run
 * or pair dimension must hold for each of its finite values; a reducer makes one number of them. share(x) is the
 * share of values that are not 0, and a comparison inside it, share(outcome == DONE), counts. slope(y, x) is that of the
 * least-squares line of y over x, where both are finite: slope(log(steps), log(task_blocks)) is an exponent.
 * This header is the syntax only; analysis/claims judges.
 */
#ifndef INVAR_JOB_CLAIM_H
#define INVAR_JOB_CLAIM_H

#include "base/status.h"

struct claim_node;

struct claim {
    char *text;                 /* as written */
    char *says;                 /* for the reader; may be NULL */
    char *source;               /* where it is claimed; may be NULL */
    int line, column;           /* where the job file says it, from 1; 0: not in a file */
    struct claim_node *tree;
};

/* Parses `text` into *out (claim_clear frees its inside).
 * fails: STATUS_JOB with the column (from 1) in *column and what was expected in status_text() */
enum status claim_parse(const char *text, struct claim *out, int *column);
void claim_clear(struct claim *c);

/* The tree, in the order of evaluation. A comparison chain a < b <= c is CLAIM_AND of two comparisons. */
enum claim_kind {
    CLAIM_NUMBER, CLAIM_NAME, CLAIM_NEGATE, CLAIM_ADD, CLAIM_SUBTRACT, CLAIM_MULTIPLY, CLAIM_DIVIDE,
    CLAIM_CALL, CLAIM_EQ, CLAIM_NE, CLAIM_LT, CLAIM_LE, CLAIM_GT, CLAIM_GE, CLAIM_AND
};

struct claim_node {
    enum claim_kind kind;
    double number;              /* CLAIM_NUMBER */
    char *name;                 /* CLAIM_NAME: the variable; CLAIM_CALL: the function */
    int index;                  /* CLAIM_NAME: component, -1 = not indexed, or by label */
    char *label;                /* CLAIM_NAME: name of the component; NULL = none */
    struct claim_node *a, *b;   /* operands; a call has a, and slope has b too */
};

#endif
