/* A report as one page that needs nothing else: its JSON, and a script (page.js) that draws it. The page's policy lets
 * no other script run and nothing be loaded. What comes out of files stands in the JSON alone, where no byte can end
 * it. */
#include <stdlib.h>
#include <string.h>

#include "evaluate/fingerprint.h"
#include "evaluate/report.h"

/* page.css and page.js (tools/embed.sh). */
extern const char ld_embed_page_css[], ld_embed_page_js[];

void lc_report_text(const struct ld_ope_report *r, struct lc_text *t)
{
    struct ld_text json;
    size_t n = 0;

    ld_text_init(&json);
    ld_ope_report_json(r, &json);
    char *text = ld_text_take(&json, &n);
    if (text == NULL)
        lc_out_of_memory(1, n);
    lc_text_put(t, text, n);
    free(text);
}

void lc_report_page(const struct ld_ope_report *r, struct lc_text *t)
{
    struct lc_text json = {0};
    char digest[LC_DIGEST_BYTES];

    lc_digest(ld_embed_page_js, digest);
    lc_report_text(r, &json);
    lc_text_printf(t,
                   "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                   "style-src 'unsafe-inline'; script-src 'sha256-%s'\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width\">\n"
                   "<meta name=\"color-scheme\" content=\"light dark\">\n<title>Offline evaluation</title>\n"
                   "<style>%s</style>\n</head>\n<body>\n<main id=\"page\"></main>\n"
                   "<noscript><p>The script in this page draws it from the JSON in this page.</p></noscript>\n"
                   "<script type=\"application/json\" id=\"report\">",
                   digest, ld_embed_page_css);
    for (const char *at = json.data, *end; *at != '\0'; at = end) {
        end = at + strcspn(at, "<");
        lc_text_put(t, at, (size_t)(end - at));
        if (*end == '<') {
            lc_text_puts(t, "\\u003c");
            end++;
        }
    }
    lc_text_printf(t, "</script>\n<script>%s</script>\n</body>\n</html>\n", ld_embed_page_js);
    lc_text_close(&json);
}
