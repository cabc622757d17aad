/* laplacectl graph: load the user graph from an edge list, or show its summary.
 *
 * A CSV file is turned into NDJSON lines ["u","v",w] while it is being sent, so the client's memory does not grow
 * with the file; a fault in the file breaks the request off, and the server applies nothing.
 *
 * Flow of a CSV upload: file -> csv.c (rows) -> edges.c (checked edges) -> produce (one NDJSON line) ->
 * read_edges (pieces of the size libcurl asks for) -> the wire, chunked. All of it runs in the one thread of
 * the program.
 *
 * The graph is the server's: it names nodes as it meets them, merges equal repeats, and refuses loops and
 * unequal repeats with the number of the edge. put replaces the graph, patch edits it. */
#include "ctl/commands.h"

#include <stdio.h>
#include <string.h>

#include "common/edges.h"
#include "common/http_client.h"
#include "common/progress.h"

/* --- how far it is ----------------------------------------------------------------------------------- */

#define ASK_NS 500000000u

/* A load that somebody waits for at a terminal: what is sent, then what the server says that it does. */
struct watched {
    struct lc_client *asking; /* another one, since the first is at work */
    struct lc_progress progress;
    const char *path; /* of the tenant */
    uint64_t next_ns; /* when to ask again */
    double n_sent;
};

/* Whether the server is at work on a graph of this tenant, perhaps of another's request; shows it then. */
static bool show_stage(struct watched *w)
{
    const struct lc_reply *r = lc_client_get(w->asking, w->path);
    struct json_t *doc = lc_reply_ok(r) ? lc_reply_json(r) : NULL;
    const struct json_t *graph = lc_json_get(doc, "graph");
    const char *stage = lc_json_text(graph, "stage");
    double progress = 0;
    if (stage != NULL && lc_json_number(lc_json_get(graph, "progress"), &progress))
        lc_progress_show(&w->progress, progress > 0 ? progress : -1, stage);
    lc_json_free(doc);
    return stage != NULL;
}

static void watch(void *arg, double n_sent)
{
    struct watched *w = arg;
    const uint64_t now = lc_now_ns();
    const bool is_moving = n_sent > w->n_sent;
    char text[64];
    w->n_sent = n_sent;
    if (!w->progress.is_live || (!is_moving && now < w->next_ns))
        return;
    if (!is_moving) {
        w->next_ns = now + ASK_NS;
        if (show_stage(w))
            return;
    }
    snprintf(text, sizeof text, "%.1f MB sent", n_sent / 1e6);
    lc_progress_show(&w->progress, -1, text);
}

/* --- CSV -> NDJSON, on the fly ---------------------------------------------------------------------- */

/* The state between two calls of libcurl for more bytes. */
struct stream {
    struct lc_edge_reader edges;
    struct lc_text line; /* produced and not yet handed out, from `taken` on */
    size_t taken;
    /* over: no more rows; failed: csv.why says why */
    bool is_over, has_failed;
};

/* Puts the next edge into line; false at the end or after a failure. A failure is remembered, since the reader behind
 * libcurl must answer for it after the fact. */
static bool produce(struct stream *st)
{
    struct lc_edge_row e;
    int rc = st->is_over ? 0 : lc_edges_next(&st->edges, &e);
    lc_text_clear(&st->line);
    st->taken = 0;
    if (rc <= 0) {
        st->is_over = true;
        st->has_failed = st->has_failed || rc < 0;
        return false;
    }
    lc_text_puts(&st->line, "[");
    lc_text_json(&st->line, e.u);
    lc_text_puts(&st->line, ",");
    lc_text_json(&st->line, e.v);
    lc_text_puts(&st->line, ",");
    lc_text_number(&st->line, e.weight);
    lc_text_puts(&st->line, "]\n");
    return true;
}

/* Fills buf with as many lines as fit; a line may be handed out in pieces. After a failure the request is broken off
 * even when some lines were ready: half a graph must not arrive as a whole one. */
static size_t read_edges(void *arg, char *buf, size_t n)
{
    struct stream *st = arg;
    size_t filled = 0;
    while (filled < n) {
        /* what of the current line has not been handed out yet */
        size_t left = st->line.n - st->taken;
        if (left == 0 && !produce(st))
            break;
        left = st->line.n - st->taken;
        /* a piece of the line, since libcurl's buffer ends where it ends */
        size_t take = left < n - filled ? left : n - filled;
        memcpy(buf + filled, st->line.data + st->taken, take);
        st->taken += take;
        filled += take;
    }
    return st->has_failed ? LC_READ_FAILED : filled;
}

/* A fault in the file is told instead of the transport error that it causes. 1 after any error. */
static int put_csv(const struct lc_session *s, struct lc_client *c, const char *path, const char *file,
                   enum lc_header header, struct watched *w)
{
    struct stream st = {0};
    int status = 1;
    if (lc_edges_open(&st.edges, file, header) == 0) {
        lc_text_clear(&st.line);
        const struct lc_reply *r = lc_client_exchange(c, "PUT", path, LC_NDJSON_TYPE, read_edges, &st, NULL);
        lc_progress_clear(&w->progress);
        if (!st.has_failed)
            status = lc_reply_print(s, r, path);
    }
    if (st.edges.csv.why[0] != '\0')
        lc_fail("%s (nothing was changed)", st.edges.csv.why);
    lc_edges_close(&st.edges);
    lc_text_close(&st.line);
    return status;
}

/* --- files that are JSON already -------------------------------------------------------------------- */

/* `format` wins over the file's name; any other word for it than json and ndjson means CSV: NULL. */
static const char *type_of(const char *file, const char *format)
{
    if (format == NULL)
        return lc_type_of(file);
    return strcmp(format, "json") == 0 ? LC_JSON_TYPE : strcmp(format, "ndjson") == 0 ? LC_NDJSON_TYPE : NULL;
}

static int send_file(const struct lc_session *s, struct lc_client *c, const char *method, const char *path,
                     const char *file, const char *type, struct watched *w)
{
    struct lc_text text = {0};
    char why[LC_WHY];
    int status = 1;
    if (lc_read_file(file, &text, why) != 0) {
        lc_fail("%s", why);
    } else {
        const struct lc_reply *r = lc_client_send(c, method, path, type, text.data, text.n);
        lc_progress_clear(&w->progress);
        status = lc_reply_print(s, r, path);
    }
    lc_text_close(&text);
    return status;
}

/* --- command ---------------------------------------------------------------------------------------- */

/* patch always takes JSON: edits are small, and CSV has no way to say "remove". */
static int load(const struct lc_session *s, const char *format, const char *verb, const char *file, int header)
{
    struct lc_client *c = lc_client_new(s, s->tenant);
    struct lc_text path = lc_tenant_path(lc_tenant_name(s), "/graph");
    struct lc_text of_tenant = lc_tenant_path(lc_tenant_name(s), "");
    const char *type = type_of(file, format);
    int status;
    struct watched w = {.asking = lc_client_new(s, s->tenant), .path = of_tenant.data};
    lc_progress_init(&w.progress, false);
    lc_client_watch(c, watch, &w);
    if (strcmp(verb, "patch") == 0)
        status = send_file(s, c, "PATCH", path.data, file, LC_JSON_TYPE, &w);
    else if (type != NULL)
        status = send_file(s, c, "PUT", path.data, file, type, &w);
    else
        status = put_csv(s, c, path.data, file, (enum lc_header)header, &w);
    lc_client_free(w.asking);
    lc_text_close(&of_tenant);
    lc_text_close(&path);
    lc_client_free(c);
    return status;
}

/* A wrong --header is found before anything is sent: `header` is -1 then. */
static int run_graph(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    const char *header_name = "auto", *format = NULL;
    struct lc_words w;
    const struct lc_opt opts[] = {
        {"header", LC_OPT_TEXT, &header_name, "auto|yes|no", "is the first row of the CSV a header? (default auto)"},
        {"format", LC_OPT_TEXT, &format, "csv|ndjson|json", "of FILE (default: by its name, else csv)"},
    };
    int rc = lc_args_parse(self, s, opts, 2, argc, argv, &w, 1, 2);
    if (rc != LC_GO)
        return rc;
    int header = lc_header_from_name(header_name);
    if (strcmp(w.word[0], "get") == 0 && w.n == 1)
        return lc_tenant_request(s, "GET", "/graph", NULL, NULL);
    if (w.n == 2 && header >= 0 && (strcmp(w.word[0], "put") == 0 || strcmp(w.word[0], "patch") == 0))
        return load(s, format, w.word[0], w.word[1], header);
    return lc_usage(self);
}

/* The server's body limit holds for what is sent, not for the CSV file. */
const struct lc_command lc_cmd_graph = {
    .name = "graph",
    .synopsis = "graph get | put FILE [--header auto|yes|no] [--format csv|ndjson|json] | patch FILE",
    .about = "the user graph: load an edge list, patch it, show its summary",
    .text = "put replaces the whole graph. FILE (\"-\": standard input) is\n"
            "  CSV      u,v or u,v,weight a row; comma, semicolon or tab; # starts a comment; a header is noticed\n"
            "           (where there are no weights and its names are unusual: give --header yes)\n"
            "  NDJSON   [\"u\",\"v\"] or [\"u\",\"v\",weight] a line\n"
            "  JSON     {\"users\":[...],\"edges\":[[\"u\",\"v\",weight],...]}\n"
            "Weights are greater than 0 and 1 when left out. patch sends {\"add\":[[u,v,w]],\"remove\":[[u,v]]}.\n\n"
            "At a terminal put shows its progress.\n\n"
            "  laplacectl graph put friends.csv --tenant shop\n",
    .run = run_graph,
};
