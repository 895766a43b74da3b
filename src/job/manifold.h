/* manifold.h: the directions of the invariant manifold of attention-only models, and their names. Pure.
 *
 * On block lists the population gradient of an attention_only model stays in the span of few directions (Musat et al.,
 * arXiv 2607.11875, theorem 1). A direction of the key-query matrix of head h of block l is (query path, S, key path): the
 * block of W at these two segments of the stream (model/attention_only.h) is the selection matrix S. One of the unembedding is
 * (S, path): the rows of that segment's tokens are S. The selections:
 *     I      equal tokens                            C      associated tokens, t and t ^ 1, both common
 *     R      equal rare tokens (model.rare_identity)
 *     Ms     key position = query position - s, cyclically within a period; s is negative for later keys
 * I, C and R are also those of the unembedding.
 *
 * Names. A path is written as the blocks it went through, from the first one, each followed by a letter for the head where
 * blocks have several: 0, 1, 13, 1a3b. A direction of a key-query matrix is w<block><head>_<query path>_<S>_<key path>, as
 * w3_0_I_12, one of the unembedding u_<S>_<path>, as u_I_12. Those of the papers have names of their own, and no others:
 *     alpha_m    wm_0_M1_0       block m attends to the previous position
 *     beta_lm    wm_0_I_l        block m matches its token with the tokens that block l wrote
 *     gamma_l    u_I_l           the answer is what block l attended to
 *     delta      u_C_0           the answer is associated with the token: in-weights learning
 * with several heads alpha_ma, beta_lamb, gamma_la. */
#ifndef INVAR_JOB_MANIFOLD_H
#define INVAR_JOB_MANIFOLD_H

#include "base/status.h"
#include "job/keys.h"

#include <stdbool.h>
#include <stddef.h>

enum selection { SELECTION_SAME, SELECTION_ASSOCIATED, SELECTION_RARE, SELECTION_SHIFT };

struct manifold_selection {
    enum selection kind;
    int shift;                       /* SELECTION_SHIFT: s */
};

struct manifold_coordinate {
    int layer;                       /* 1..layers: a key-query matrix of that block; layers + 1: the unembedding */
    int head;                        /* 1..heads; 0 of the unembedding */
    int query, key;                  /* paths as segments of the stream; the unembedding's path is key, query is 0 */
    int selection;                   /* number in manifold.selection */
    char name[KEY_NAMED_TEXT];
};

#define MANIFOLD_SELECTIONS_MAX 128
#define MANIFOLD_LAYERS_MAX 9
#define MANIFOLD_HEADS_MAX 26
#define MANIFOLD_COORDINATES_MAX 65536

struct manifold {
    int layers, heads;
    int selections, of_tokens;       /* the first so many are of tokens, the rest shifts by ascending s */
    struct manifold_selection selection[MANIFOLD_SELECTIONS_MAX];
    int coordinates;                 /* by layer, head, query, selection, key; the unembedding's last */
    struct manifold_coordinate *coordinate;
};

/* Those that model.coordinates names, in the order of the manifold, not of the text.
 * out: *m, freed with manifold_free   fails: STATUS_JOB (no block list, a name that is no coordinate of this model, a name
 * twice, too many of them; the text says which, and the nearest name) */
enum status manifold_new(const struct spec *s, struct manifold **m);
/* All that the model's manifold has, whatever model.coordinates says. */
enum status manifold_new_all(const struct spec *s, struct manifold **m);
void manifold_free(struct manifold *m);

/* Number of the coordinate of this name, or -1. */
int manifold_find(const struct manifold *m, const char *name);
/* The name nearest to a wrong one. */
const char *manifold_nearest(const struct manifold *m, const char *name);

/* The next name in a text such as model.coordinates (blanks and commas between them): where it begins, and its length; NULL at
 * the end. */
const char *manifold_next_name(const char *names, size_t *length);

/* How many coordinates manifold_new makes, without making them; 0 where it fails for lack of a block list. */
double manifold_count(const struct spec *s);

/* Circuits: pairs of blocks l < m, the previous-token block and the matching one, in the order 12, 13, .., 23, ..; a
 * circuit's unit is beta_lm (of all heads). Their number is l (l - 1) / 2. */
int manifold_circuits(int layers);
void manifold_circuit(int layers, int circuit, int *first, int *second);

#endif
