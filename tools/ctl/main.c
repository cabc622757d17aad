/* laplacectl: the command line of laplaced. This file holds the table of commands and nothing else.
 *
 *   laplacectl [session options] COMMAND [arguments and options]
 *
 * Exit status: 0 done; 1 the server refused, could not be reached or the input is faulty; 2 a usage error.
 *
 * Order of work: process-wide settings -> session from the environment -> options in front of the command ->
 * the command's own parser (args.c) -> its run. A new command is a row in its file, a line in commands.h and
 * one here.
 *
 * Threads exist in replay and demo alone; what is set here is set before them. */
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "app/blas_core.h"
#include "ctl/commands.h"
#include "common/http_client.h"

/* in the order of --help */
static const struct lc_command *const commands[] = {
    &lc_cmd_tenant,  &lc_cmd_key,      &lc_cmd_graph,  &lc_cmd_arms,   &lc_cmd_select,   &lc_cmd_reward,
    &lc_cmd_observe, &lc_cmd_activate, &lc_cmd_events, &lc_cmd_model,  &lc_cmd_stats,    &lc_cmd_experiment,
    &lc_cmd_health,  &lc_cmd_ready,    &lc_cmd_verify, &lc_cmd_repair, &lc_cmd_snapshot, &lc_cmd_restore,
    &lc_cmd_export,  &lc_cmd_import,   &lc_cmd_replay, &lc_cmd_demo,   &lc_cmd_evaluate, &lc_cmd_cluster,
};

#define N_COMMANDS (sizeof commands / sizeof commands[0])

static void print_help(void)
{
    puts("laplacectl: command line of laplaced, the bandit service over a graph of users\n\n"
         "usage: laplacectl [options] COMMAND ...\n\ncommands:");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-10s %s\n", commands[i]->name, commands[i]->about);
    puts("");
    lc_args_print_session();
    puts("\n`laplacectl COMMAND --help` tells the rest, with file formats and examples.\n"
         "To see it work: start `laplaced`, then run `laplacectl demo`.");
}

static const struct lc_command *find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int no_command(const struct lc_session *s)
{
    if (s->wants_help) {
        print_help();
        return 0;
    }
    fputs("usage: laplacectl [options] COMMAND ...   (laplacectl --help lists the commands)\n", stderr);
    return 2;
}

/* The command at argv[0] with its arguments; `help COMMAND` is COMMAND --help. argc >= 1. */
static int run_command(struct lc_session *s, int argc, char **argv)
{
    if (strcmp(argv[0], "help") == 0) {
        s->wants_help = true;
        if (argc == 1)
            return no_command(s);
        argc--;
        argv++;
    }
    const struct lc_command *cmd = find(argv[0]);
    if (cmd == NULL)
        return lc_misuse("there is no command \"%s\" (laplacectl --help lists them)", argv[0]);
    return cmd->run(cmd, s, argc - 1, argv + 1);
}

/* Output that cannot be written (a full disk, a closed pipe) must not look like success. */
static int flush_output(int status)
{
    if (fflush(stdout) != 0 && status == 0) {
        perror("laplacectl: standard output");
        return 1;
    }
    return status;
}

/* SIGPIPE is ignored so that a closed pipe shows as a failed write and status 1, not as a silent death. */
int main(int argc, char **argv)
{
    struct lc_session session;
    setlocale(LC_CTYPE, ""); /* only to learn whether the terminal speaks UTF-8: numbers stay in the C locale */
    signal(SIGPIPE, SIG_IGN);
    ld_blas_core_match(argv);
    lc_http_global_init();
    lc_args_session_init(&session);
    int used = lc_args_session(&session, argc - 1, argv + 1);
    if (used < 0)
        return 2;
    if (1 + used >= argc)
        return flush_output(no_command(&session));
    return flush_output(run_command(&session, argc - 1 - used, argv + 1 + used));
}
