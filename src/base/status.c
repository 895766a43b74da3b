#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[STATUS_TEXT_MAX];

static const struct {
    const char *name;
    int exit_code;
    const char *meaning;
} table[STATUS_COUNT] = {
#define STATUS(name, code, text) {#name, code, text},
    STATUS_TABLE(STATUS)
#undef STATUS
};

enum status status_fail(enum status s, const char *format, ...)
{
    char text[STATUS_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(message, text, sizeof message);   /* the arguments may point into the old message */
    return s;
}

enum status status_context(enum status s, const char *format, ...)
{
    char text[STATUS_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t n = strlen(text), m = strlen(message);
    if (n + 2 + m >= sizeof text)
        m = n + 3 < sizeof text ? sizeof text - n - 3 : 0;
    if (m) {
        memcpy(text + n, ": ", 2);
        memcpy(text + n + 2, message, m);
        text[n + 2 + m] = '\0';
    }
    memcpy(message, text, sizeof message);
    return s;
}

const char *status_text(void) { return message; }
const char *status_name(enum status s) { return table[s].name; }
const char *status_meaning(enum status s) { return table[s].meaning; }
int status_exit_code(enum status s) { return table[s].exit_code; }
