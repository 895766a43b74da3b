/* value.h: from a YAML node to the value of a key and back, with everything the tables say about it. */
#ifndef INVAR_JOB_VALUE_H
#define INVAR_JOB_VALUE_H

#include "job/keys.h"
#include "job/tree.h"

/* Reads the value of key k into *s. Returns false, with a complaint and *s untouched, when it is of the wrong
 * type, out of range or not one of the key's words. Of a NAMED key only that it is a mapping is looked at. */
bool value_read(const struct key *k, const struct tree *t, struct spec *s, struct complaints *c);
/* The same for a scalar key, into a number (a choice is its index, a bool 0 or 1). Whole numbers beyond 2^53, which
 * a double cannot tell apart, are refused. */
bool value_number(const struct key *k, const struct tree *t, double *out, struct complaints *c);

/* A plain decimal number in full: "64", "-1", "1e-4". Not "1_000", "0x10", "010", ".inf" or anything quoted. */
bool value_is_real(const struct tree *t, double *out);
bool value_is_whole(const struct tree *t, int64_t *out);

/* The value as YAML that value_read reads back to the same bits. */
void value_print(const struct key *k, const struct spec *s, struct text *out);
/* {alpha_1: 0.3}; without those whose number is marked, where left_out[count] is given. */
void value_print_named(const struct key_named *n, const bool *left_out, struct text *out);
void value_print_number(const struct key *k, double value, struct text *out);
/* What the key takes, for people: "whole number from 1 to 64", "one of adamw, sgd". */
void value_expected(const struct key *k, struct text *out);

#endif
