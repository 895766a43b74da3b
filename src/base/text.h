/* text.h: growing text, and the few string questions that several rooms ask. */
#ifndef INVAR_BASE_TEXT_H
#define INVAR_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>

/* A growing, always terminated string. `struct text t = {0};` is an empty one; free with text_free. */
struct text {
    char *s;
    size_t length, capacity;
};

void text_add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_list(struct text *t, const char *format, va_list args);
void text_add_bytes(struct text *t, const void *bytes, size_t n);
void text_add_json(struct text *t, const char *s);      /* s quoted and escaped for JSON, quotes included */
void text_add_xml(struct text *t, const char *s);       /* s escaped for XML and HTML */
const char *text_string(const struct text *t);          /* never NULL */
void text_free(struct text *t);

/* The shortest decimal form of x that reads back to the same double ("0.1", not "0.10000000000000001"). */
void text_add_double(struct text *t, double x);

/* Edits (insert, delete, replace, swap of neighbours) between a and b; used for "did you mean". */
int text_distance(const char *a, const char *b);

/* Reads a decimal whole number or finite real that fills the whole string; returns 0 when it is none. */
int text_to_int(const char *s, long long *out);
int text_to_double(const char *s, double *out);

/* Whole file into memory (terminated; length without the terminator); NULL with errno set when it fails. */
char *text_read_file(const char *path, size_t *length);

#endif
