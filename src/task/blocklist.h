/* blocklist.h: inside the task room: what a list of blocks says, before its tokens have names and its blocks places.
 *
 * A pattern is a sequence of symbols: which positions hold the same token, and which tokens are associated. Everything that
 * a model on the invariant manifold does depends on it alone (Musat et al., arXiv 2607.11875). Names are given to symbols
 * and places to blocks afterwards.
 */
#ifndef INVAR_TASK_BLOCKLIST_H
#define INVAR_TASK_BLOCKLIST_H

#include "base/stream.h"
#include "job/shape.h"

#include <stdint.h>

struct block_pattern {
    int length, symbols;
    enum token_class class;
    int *symbol;             /* [length] numbered by first occurrence */
    int *partner;            /* [symbols] the associated symbol, or -1 */
    int answer;              /* a symbol */
    double weight;           /* its probability */
};

/* A pattern with room for the task's lengths; freed with pattern_free. */
struct block_pattern pattern_new(const struct spec *s);
void pattern_free(struct block_pattern *p);
/* Draws one.   out: *p */
void pattern_draw(const struct spec *s, struct stream *stream, struct block_pattern *p);
/* Calls `each` for all patterns, each once, in an order that does not depend on their weights, which sum to 1. */
typedef void pattern_each(void *context, const struct block_pattern *p);
void pattern_all(const struct spec *s, pattern_each *each, void *context);

#endif
