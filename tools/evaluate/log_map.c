/* --map: see log_map.h. What is not mapped has its default name, so that files that use those need no map. */
#include "evaluate/log_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const lc_map_keys[LC_MAP_N] = {"arm", "reward", "user", "propensity", "position", "time", "candidates"};

/* "age+hour" into its names. -1: too many. */
static int split(char *text, const char **out, size_t *n)
{
    char *rest = NULL;

    for (char *name = strtok_r(text, "+", &rest); name != NULL; name = strtok_r(NULL, "+", &rest)) {
        if (*n == LC_MAP_MAX)
            return -1;
        out[(*n)++] = name;
    }
    return 0;
}

static int set(struct lc_map *m, const char *key, char *value)
{
    if (strcmp(key, "context") == 0) {
        m->n_context = 0;
        return split(value, m->context, &m->n_context);
    }
    if (strcmp(key, "categories") == 0)
        return split(value, m->category, &m->n_category);
    for (size_t i = 0; i < LC_MAP_N; i++)
        if (strcmp(lc_map_keys[i], key) == 0) {
            m->name[i] = value;
            return 0;
        }
    return -1;
}

int lc_map_parse(struct lc_map *m, const char *text, char *why)
{
    char *rest = NULL;

    *m = (struct lc_map){.context = {"context"}, .n_context = 1};
    memcpy(m->name, lc_map_keys, sizeof lc_map_keys);
    if (text == NULL)
        return 0;
    m->copy = lc_copy(text);
    for (char *pair = strtok_r(m->copy, ",", &rest); pair != NULL; pair = strtok_r(NULL, ",", &rest)) {
        char *value = strchr(pair, '=');
        if (value != NULL)
            *value++ = '\0';
        if (value == NULL || *value == '\0' || set(m, pair, value) != 0) {
            snprintf(why, LC_WHY,
                     "--map: \"%.60s\": expected user=, arm=, reward=, propensity=, position=, time=, candidates=, "
                     "context= or categories= (up to %d names joined by +)",
                     pair, LC_MAP_MAX);
            return -1;
        }
    }
    return 0;
}

void lc_map_close(struct lc_map *m)
{
    free(m->copy);
    m->copy = NULL;
}
