/* What the client makes of a report (ope_report.h) besides its JSON. */
#ifndef LC_REPORT_H
#define LC_REPORT_H

#include "common/text.h"
#include "evaluate/ope_report.h"

void lc_report_text(const struct ld_ope_report *r, struct lc_text *t); /* its JSON */
void lc_report_page(const struct ld_ope_report *r, struct lc_text *t); /* HTML: the JSON, and a script that draws it */
void lc_report_print(const struct ld_ope_report *r);                   /* to standard output */

#endif
