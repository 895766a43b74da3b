#include "analysis/html.h"

#include <stdarg.h>
#include <string.h>

static const char style[] =
    "body{font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;color:#1b1b1b;"
    "background:#fff;max-width:1120px;margin:2rem auto;padding:0 1.2rem}\n"
    "h1{font-size:1.7rem;margin:0 0 .2rem}h2{font-size:1.2rem;margin:2.2rem 0 .7rem;border-bottom:1px solid #ddd}\n"
    "p.lead{color:#444;margin:.2rem 0 1rem}table{border-collapse:collapse;font-size:.92rem}\n"
    "th,td{text-align:left;vertical-align:top;padding:.28rem .9rem .28rem 0;border-bottom:1px solid #eee}\n"
    "th{font-weight:600}td.number{font-variant-numeric:tabular-nums}td code{white-space:nowrap}\n"
    "code,pre{font:.88em/1.45 ui-monospace,'DejaVu Sans Mono',Menlo,monospace}\n"
    "pre{background:#f6f6f6;padding:.8rem;overflow-x:auto;white-space:pre-wrap}\n"
    ".verdict{font-weight:700;white-space:nowrap}.holds{color:#00664b}.fails{color:#b03a00}.unknown{color:#6b5200}\n"
    ".figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(480px,1fr));gap:1.6rem 2rem;"
    "align-items:start}\n"
    "figure{margin:0}figure.wide{grid-column:1/-1}figure svg,figure img{display:block;max-width:100%;height:auto}\n"
    "figcaption{font-size:.9rem;color:#333;max-width:44rem}figcaption b{color:#111}.fault{color:#b03a00}\n"
    "@media (max-width:560px){.figures{grid-template-columns:1fr}}\n"
    "@media print{body{max-width:none;margin:0;font-size:11pt}figure,tr{break-inside:avoid}details>*{display:block}}\n";

void html_begin(struct text *t, const char *title)
{
    text_add(t, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>");
    html_add(t, title);
    text_add(t, "</title>\n<style>\n%s</style>\n</head>\n<body>\n", style);
}

void html_end(struct text *t) { text_add(t, "</body>\n</html>\n"); }

/* Length of the UTF-8 character at s, 0 when it is none or XML does not allow it. */
static size_t character(const unsigned char *s)
{
    size_t n = s[0] < 0x80 ? 1 : (s[0] & 0xE0) == 0xC0 ? 2 : (s[0] & 0xF0) == 0xE0 ? 3 : (s[0] & 0xF8) == 0xF0 ? 4 : 0;
    if (n == 1 && s[0] < 0x20 && s[0] != '\n' && s[0] != '\t')
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    return n;
}

void html_add(struct text *t, const char *s)
{
    while (*s) {
        size_t n = character((const unsigned char *)s);
        char one[5] = "?";
        if (n)
            memcpy(one, s, n);
        text_add_xml(t, one);
        s += n ? n : 1;
    }
}

void html_row(struct text *t, const char *heading, const char *format, ...)
{
    struct text value = {0};
    va_list args;
    va_start(args, format);
    text_add_list(&value, format, args);
    va_end(args);
    text_add(t, "<tr><th>");
    html_add(t, heading);
    text_add(t, "</th><td>");
    html_add(t, text_string(&value));
    text_add(t, "</td></tr>\n");
    text_free(&value);
}

/* Where ids stand in gnuplot's SVG: behind these. */
static const char *const before_ids[] = {" id='", " id=\"", "url(#", "href='#", "href=\"#"};

/* Ids of single plots, which nothing refers to and which repeat from panel to panel, are left out. */
static const char plot_id[] = " id=\"gnuplot_plot";

void html_add_svg(struct text *t, const char *svg, const char *name)
{
    const char *p = strstr(svg, "<svg");
    while (p && *p) {
        size_t n = 1;
        if (!strncmp(p, plot_id, strlen(plot_id))) {
            p += strlen(plot_id);
            p += strcspn(p, "\"") + 1;
            continue;
        }
        const char *prefix = "";
        for (size_t i = 0; i < sizeof before_ids / sizeof before_ids[0]; i++)
            if (!strncmp(p, before_ids[i], strlen(before_ids[i]))) {
                n = strlen(before_ids[i]);
                prefix = name;
            }
        text_add_bytes(t, p, n);
        if (*prefix)
            text_add(t, "%s-", prefix);
        p += n;
    }
}

/* Base64 (RFC 4648). */
static void add_base64(struct text *t, const unsigned char *p, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        unsigned v = (unsigned)p[i] << 16 | (i + 1 < n ? (unsigned)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);
        char four[4] = {digits[v >> 18], digits[v >> 12 & 63], i + 1 < n ? digits[v >> 6 & 63] : '=',
                        i + 2 < n ? digits[v & 63] : '='};
        text_add_bytes(t, four, 4);
    }
}

void html_add_png(struct text *t, const void *png, size_t n)
{
    text_add(t, "<img alt=\"\" src=\"data:image/png;base64,");
    add_base64(t, png, n);
    text_add(t, "\"/>\n");
}
