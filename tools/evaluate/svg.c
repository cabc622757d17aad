/* Drawings as SVG: see svg.h. */
#include "evaluate/svg.h"

#include <math.h>
#include <string.h>

#include "json/json_out.h" /* for the server's text.h, which knows UTF-8 */

#define MAX_LABEL 40

static const char STYLE[] =
    "<style>.lc{font:12px system-ui,sans-serif;max-width:100%;height:auto}.lc text{fill:#222;unicode-bidi:isolate}"
    ".lc .end{text-anchor:end}.lc .mid{text-anchor:middle}.lc .bold{font-weight:600}.lc .axis{stroke:#888}"
    ".lc .grid{stroke:#e2e2e2}.lc .zero{stroke:#888;stroke-dasharray:4 3}.lc .line{stroke-width:1.8;fill:none}"
    ".lc .band{opacity:.22}.lc .paper{fill:#fff}"
    ".lc .c0{--c:#6b6b6b}.lc .c1{--c:#a3447f}.lc .c2{--c:#0067a5}.lc .c3{--c:#b04a00}.lc .c4{--c:#6a4fb3}"
    ".lc .c5{--c:#00785a}.lc .line{stroke:var(--c)}.lc .fill,.lc .band{fill:var(--c)}"
    ".lc text.name{fill:var(--c)}"
    "@media (prefers-color-scheme:dark){.lc text{fill:#e6e6e6}.lc .grid{stroke:#3a3a3a}.lc .paper{fill:#16181c}"
    ".lc .c0{--c:#a8a8a8}.lc .c1{--c:#e59bc6}.lc .c2{--c:#62b5ec}.lc .c3{--c:#f0a060}.lc .c4{--c:#b8a4f0}"
    ".lc .c5{--c:#4fc9a4}}</style>";

/* --- text --------------------------------------------------------------------------------------------- */

/* Characters of XML 1.0 that HTML has as well; n is the length of one that is UTF-8. */
static bool is_allowed(const unsigned char *s, size_t n)
{
    if (n == 1)
        return (*s >= 0x20 && *s != 0x7f) || *s == '\t' || *s == '\n';
    if (n == 2)
        return s[0] != 0xc2 || s[1] >= 0xa0;
    return !(n == 3 && s[0] == 0xef && s[1] == 0xbf && s[2] >= 0xbe);
}

static void put_character(struct lc_text *t, const unsigned char *s, size_t n)
{
    static const char special[] = "&<>\"'";
    static const char *const entity[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    const char *at = n == 1 ? strchr(special, *s) : NULL;

    if (at != NULL)
        lc_text_puts(t, entity[at - special]);
    else if (n > 0 && is_allowed(s, n))
        lc_text_put(t, s, n);
    else
        lc_text_puts(t, "\xef\xbf\xbd");
}

void lc_xml_put(struct lc_text *t, const char *s, size_t most)
{
    const unsigned char *at = (const unsigned char *)s;

    for (size_t k = 0; *at != '\0'; k++) {
        const size_t n = ld_text_utf8_length(at);
        if (most > 0 && k == most) {
            lc_text_puts(t, "\xe2\x80\xa6");
            return;
        }
        put_character(t, at, n);
        at += n > 0 ? n : 1;
    }
}

/* --- elements ----------------------------------------------------------------------------------------- */

void lc_svg_open(struct lc_text *t, const char *id, double width, double height, const char *title, const char *about)
{
    lc_text_printf(t,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"%s\" class=\"lc\" role=\"img\" width=\"%g\" "
                   "height=\"%g\" viewBox=\"0 0 %g %g\" aria-labelledby=\"%s-t %s-d\">\n<title id=\"%s-t\">",
                   id, width, height, width, height, id, id, id);
    lc_xml_put(t, title, 0);
    lc_text_printf(t, "</title><desc id=\"%s-d\">", id);
    lc_xml_put(t, about, 0);
    lc_text_printf(t, "</desc>\n%s\n", STYLE);
}

void lc_svg_close(struct lc_text *t)
{
    lc_text_puts(t, "</svg>\n");
}

void lc_svg_line(struct lc_text *t, const char *class, double x1, double y1, double x2, double y2)
{
    lc_text_printf(t, "<line class=\"%s\" x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\"/>\n", class, x1, y1, x2, y2);
}

/* The end of an element, with its title if it has one. */
static void finish(struct lc_text *t, const char *element, const char *title)
{
    if (title == NULL) {
        lc_text_puts(t, "/>\n");
        return;
    }
    lc_text_puts(t, "><title>");
    lc_xml_put(t, title, 0);
    lc_text_printf(t, "</title></%s>\n", element);
}

void lc_svg_rect(struct lc_text *t, const char *class, double x, double y, double w, double h, const char *title)
{
    lc_text_printf(t, "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"", class, x, y,
                   fmax(w, 0), fmax(h, 0));
    finish(t, "rect", title);
}

void lc_svg_curve(struct lc_text *t, const char *class, const double *x, const double *y, size_t n, const char *title)
{
    lc_text_printf(t, "<polyline class=\"%s\" points=\"", class);
    for (size_t i = 0; i < n; i++)
        lc_text_printf(t, "%s%.1f,%.1f", i > 0 ? " " : "", x[i], y[i]);
    lc_text_puts(t, "\"");
    finish(t, "polyline", title);
}

void lc_svg_dot(struct lc_text *t, const char *class, double x, double y, const char *title)
{
    lc_text_printf(t, "<circle class=\"%s\" cx=\"%.2f\" cy=\"%.2f\" r=\"4\"", class, x, y);
    finish(t, "circle", title);
}

void lc_svg_text(struct lc_text *t, const char *class, double x, double y, const char *text)
{
    lc_text_printf(t, "<text class=\"%s\" x=\"%.2f\" y=\"%.2f\">", class, x, y);
    lc_xml_put(t, text, MAX_LABEL);
    lc_text_puts(t, "</text>\n");
}

/* --- axes --------------------------------------------------------------------------------------------- */

double lc_axis_at(const struct lc_axis *a, double v)
{
    const double lo = a->is_log ? log10(a->lo) : a->lo, hi = a->is_log ? log10(a->hi) : a->hi;
    const double share = ((a->is_log ? log10(v) : v) - lo) / (hi - lo);

    return a->from + (a->to - a->from) * fmin(1, fmax(0, share));
}

static double step_of(const struct lc_axis *a, size_t max)
{
    const double rough = (a->hi - a->lo) / (double)(max - 1), unit = pow(10, floor(log10(rough)));

    return rough <= unit ? unit : rough <= 2 * unit ? 2 * unit : rough <= 5 * unit ? 5 * unit : 10 * unit;
}

size_t lc_axis_ticks(const struct lc_axis *a, double *tick, size_t max)
{
    const double lo = a->is_log ? log10(a->lo) : a->lo, hi = a->is_log ? log10(a->hi) : a->hi;
    const struct lc_axis linear = {.lo = lo, .hi = hi};
    const double step = a->is_log ? fmax(1, ceil((hi - lo) / (double)(max - 1))) : step_of(&linear, max);
    size_t n = 0;

    for (double k = ceil(lo / step - 1e-9); k * step <= hi + 1e-9 * step && n < max; k++)
        tick[n++] = a->is_log ? pow(10, k * step) : k * step + 0.0; /* no -0 */
    return n;
}
