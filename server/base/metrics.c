/* Counting: requests, durations; and the table of what the process counts.
 *
 * Buckets go by 1, 2 and 5 from 10 us to 20 s. Counters are relaxed atomics: a scrape sees each of them at some recent
 * moment, not all at the same one, so that nothing is kept twice: a histogram's count is the sum of its buckets, and a
 * request's code and its bucket are one cell. Names and help stand beside each other here, and for tenants in
 * metrics_tenants.c. */
#include "base/metrics.h"

/* Bounds are inclusive above, as `le` says: bucket i holds what is over bound i - 1 and up to bound i. */
const uint64_t ld_hist_bound[LD_HIST_BUCKETS] = {
    10,    20,    50,     100,    200,    500,     1000,    2000,    5000,     10000,
    20000, 50000, 100000, 200000, 500000, 1000000, 2000000, 5000000, 10000000, 20000000,
};

/* --- the table ------------------------------------------------------------------------------------------ */

#define RANK_REWARDS_HELP "Rewards under /personalizer that were answered with 204, by what came of them."
#define FIELD(f) offsetof(struct ld_metrics, f)
#define IN_MS 1e3
#define IN_US 1e6
#define TIMED_OUT_HELP "Connections closed because what they were at took too long."
#define LIMITED_HELP "Requests turned away before their work was begun, by limit."

/* clang-format off */
/* Columns: name, labels, kind, unit, field, help. Events by commits is the size of a group; the duration of a commit
 * against the disk's own time shows what SQLite adds. */
const struct ld_metric ld_metric_table[] = {
    {"config_reloads_total", "result=\"ok\"", LD_COUNTER, 1, FIELD(reloads), "SIGHUPs, by whether the configuration was taken."},
    {"config_reloads_total", "result=\"failed\"", LD_COUNTER, 1, FIELD(reload_failures), "SIGHUPs, by whether the configuration was taken."},
    {"config_last_reload_success_timestamp_seconds", NULL, LD_GAUGE, IN_MS, FIELD(configured_ms), "When the configuration in force was read, in seconds since 1970."},
    {"http_requests_in_flight", NULL, LD_GAUGE, 1, FIELD(in_flight), "Requests accepted and not yet answered."},
    {"queue_depth_limit", NULL, LD_GAUGE, 1, FIELD(queue_limit), "Changes that may wait for one tenant's writer."},
    {"tls_certificate_expiry_timestamp_seconds", NULL, LD_GAUGE_IF_SET, 1, FIELD(tls_expires_s), "When the certificate in force expires, in seconds since 1970."},
    {"refused_busy_total", NULL, LD_COUNTER, 1, FIELD(refused_busy), "Requests refused because a queue was full."},
    {"connections", NULL, LD_GAUGE, 1, FIELD(connections), "Open connections."},
    {"connections_refused_total", NULL, LD_COUNTER, 1, FIELD(connections_refused), "Connections refused because there were too many."},
    {"connections_gave_way_total", NULL, LD_COUNTER, 1, FIELD(connections_gave_way), "Connections without a request that were closed for new ones."},
    {"connections_timed_out_total", "phase=\"headers\"", LD_COUNTER, 1, FIELD(connections_timed_out[LD_TIMED_HEADERS]), TIMED_OUT_HELP},
    {"connections_timed_out_total", "phase=\"body\"", LD_COUNTER, 1, FIELD(connections_timed_out[LD_TIMED_BODY]), TIMED_OUT_HELP},
    {"connections_timed_out_total", "phase=\"answer\"", LD_COUNTER, 1, FIELD(connections_timed_out[LD_TIMED_ANSWER]), TIMED_OUT_HELP},
    {"connections_timed_out_total", "phase=\"idle\"", LD_COUNTER, 1, FIELD(connections_timed_out[LD_TIMED_IDLE]), TIMED_OUT_HELP},
    {"requests_limited_total", "reason=\"rate\"", LD_COUNTER, 1, FIELD(limited[LD_LIMITED_RATE]), LIMITED_HELP},
    {"requests_limited_total", "reason=\"queue\"", LD_COUNTER, 1, FIELD(limited[LD_LIMITED_QUEUE]), LIMITED_HELP},
    {"requests_limited_total", "reason=\"queue_bytes\"", LD_COUNTER, 1, FIELD(limited[LD_LIMITED_QUEUE_BYTES]), LIMITED_HELP},
    {"requests_limited_total", "reason=\"opening\"", LD_COUNTER, 1, FIELD(limited[LD_LIMITED_OPENING]), LIMITED_HELP},
    {"requests_limited_total", "reason=\"work\"", LD_COUNTER, 1, FIELD(limited[LD_LIMITED_WORK]), LIMITED_HELP},
    {"requests_limited_total", "reason=\"transfers\"", LD_COUNTER, 1, FIELD(limited[LD_LIMITED_TRANSFERS]), LIMITED_HELP},
    {"requests_limited_total", "reason=\"body_memory\"", LD_COUNTER, 1, FIELD(limited[LD_LIMITED_BODY_MEMORY]), LIMITED_HELP},
    {"commits_total", NULL, LD_COUNTER, 1, FIELD(commits), "Transactions committed."},
    {"committed_events_total", NULL, LD_COUNTER, 1, FIELD(committed_rows), "Events in them."},
    {"commit_failures_total", NULL, LD_COUNTER, 1, FIELD(commit_failures), "Transactions that the disk refused."},
    {"commit_duration_seconds", NULL, LD_HISTOGRAM, IN_US, FIELD(commit_time), "One transaction, fsync included."},
    {"commit_events", NULL, LD_HISTOGRAM, 10, FIELD(commit_tenths), "Events in one transaction."},
    {"write_lock_seconds", NULL, LD_HISTOGRAM, IN_US, FIELD(write_lock), "How long a tenant's decisions were held up by a change."},
    {"write_lock_max_seconds", NULL, LD_GAUGE, IN_US, FIELD(write_lock.max), "The longest of them since the start."},
    {"write_lock_cpu_max_seconds", NULL, LD_GAUGE, IN_US, FIELD(write_lock_cpu_max_us), "The most that one of them took at the processor."},
    {"snapshots_total", NULL, LD_COUNTER, 1, FIELD(snapshots), "Snapshots written."},
    {"snapshot_failures_total", NULL, LD_COUNTER, 1, FIELD(snapshot_failures), "Snapshots that could not be written."},
    {"snapshots_refused_total", NULL, LD_COUNTER, 1, FIELD(snapshots_refused), "Snapshots not believed at a start: the log was folded instead."},
    {"snapshot_seconds", NULL, LD_HISTOGRAM, IN_US, FIELD(snapshot_time), "Writing a snapshot beside the tenant's writer."},
    {"builds_running", NULL, LD_GAUGE, 1, FIELD(builds_running), "Runs of work on models, beside their writers, under way."},
    {"build_failures_total", NULL, LD_COUNTER, 1, FIELD(build_failures), "Such runs that failed, mostly for want of memory; tried again."},
    {"build_seconds", NULL, LD_HISTOGRAM, IN_US, FIELD(build_time), "Work on a tenant's model beside its writer, by run."},
    {"dictionary_resets_total", NULL, LD_COUNTER, 1, FIELD(resets), "Models made anew from their history."},
    {"dictionary_admissions_total", NULL, LD_COUNTER, 1, FIELD(admissions), "Points that entered a dictionary by themselves."},
    {"route_fallbacks_total", NULL, LD_COUNTER, 1, FIELD(route_fallbacks), "Refusals of GET /route in whose place the fallback's arm was told."},
    {"personalizer_rewards_total", "result=\"learned\"", LD_COUNTER, 1, FIELD(rank_rewards[0]), RANK_REWARDS_HELP},
    {"personalizer_rewards_total", "result=\"duplicate\"", LD_COUNTER, 1, FIELD(rank_rewards[1]), RANK_REWARDS_HELP},
    {"personalizer_rewards_total", "result=\"ignored\"", LD_COUNTER, 1, FIELD(rank_rewards[2]), RANK_REWARDS_HELP},
    {"personalizer_rewards_total", "result=\"late\"", LD_COUNTER, 1, FIELD(rank_rewards[3]), RANK_REWARDS_HELP},
    {"personalizer_rewards_total", "result=\"unknown\"", LD_COUNTER, 1, FIELD(rank_rewards[4]), RANK_REWARDS_HELP},
    {"promotions_total", NULL, LD_COUNTER, 1, FIELD(promotions), "Challengers put in force, and rollbacks."},
    {"guardrail_promotions_total", NULL, LD_COUNTER, 1, FIELD(guardrail_promotions), "Those that a guardrail asked for."},
    {"compactions_total", NULL, LD_COUNTER, 1, FIELD(compactions), "Logs that were made to start with a summary."},
    {"verifications_total", NULL, LD_COUNTER, 1, FIELD(verifications), "Models compared with a fold of their log."},
    {"verifications_different_total", NULL, LD_COUNTER, 1, FIELD(verifications_different), "Those that differed: the server's log names the tenant."},
    {"replays_running", NULL, LD_GAUGE, 1, FIELD(replays_running), "Replays of logs inside the server, under way."},
    {"replays_total", NULL, LD_COUNTER, 1, FIELD(replays), "Replays that ended with a report."},
    {"evaluations_running", NULL, LD_GAUGE, 1, FIELD(evaluations_running), "Evaluations of tenants' own logs, under way."},
    {"evaluations_total", NULL, LD_COUNTER, 1, FIELD(evaluations), "Evaluations that ended with a result."},
    {"evaluation_failures_total", NULL, LD_COUNTER, 1, FIELD(evaluation_failures), "Those that were cancelled, or failed."},
    {"replay_failures_total", NULL, LD_COUNTER, 1, FIELD(replay_failures), "Those that ended otherwise once they had begun: a fault in the log, a client that left, a stop."},
    {"tenant_opens_total", NULL, LD_COUNTER, 1, FIELD(opens), "Tenants opened at a use."},
    {"tenant_open_failures_total", NULL, LD_COUNTER, 1, FIELD(open_failures), "Openings that failed."},
    {"tenant_open_seconds", NULL, LD_HISTOGRAM, IN_US, FIELD(open_time), "From the file to a model that serves."},
    {"memory_cap_bytes", NULL, LD_GAUGE_IF_SET, 1, FIELD(memory_cap_bytes), "Memory of tenants beyond which idle ones are closed."},
    {"data_free_bytes", NULL, LD_GAUGE, 1, FIELD(data_free_bytes), "Free on the disk of the data folder, for this process."},
    {"data_size_bytes", NULL, LD_GAUGE, 1, FIELD(data_size_bytes), "Size of that disk."},
    {"log_lines_dropped_total", "reason=\"limited\"", LD_COUNTER, 1, FIELD(log_limited), "Lines missing from the server's log: too many of a kind in a second, or nobody took them from stderr."},
    {"log_lines_dropped_total", "reason=\"stalled\"", LD_COUNTER, 1, FIELD(log_lost), NULL},
    {"tenant_evictions_total", NULL, LD_COUNTER, 1, FIELD(evictions), "Tenants closed to make room."},
};
const size_t ld_n_metrics = sizeof ld_metric_table / sizeof *ld_metric_table;

#define OUTCOMES_HELP "Batches that were to be appended to the shared log, by what became of them; down: turns that were not had, too."
#define RESOLVED_HELP "Outcomes that were unknown and are known, by whether the batch was in the log."
const struct ld_metric ld_shared_metric_table[] = {
    {"log_up", NULL, LD_GAUGE, 1, FIELD(shared.is_up), "1 while the shared log answers and may acknowledge."},
    {"log_sync_standbys", NULL, LD_GAUGE, 1, FIELD(shared.n_standbys), "Standbys that commits wait for; 0 as well where nobody asks (--log-sync trusted)."},
    {"log_standbys_known", NULL, LD_GAUGE, 1, FIELD(shared.has_standbys), "1 while the primary tells how many standbys commits wait for; 0 where it is away, or nobody asks."},
    {"nodes", NULL, LD_GAUGE, 1, FIELD(shared.n_nodes), "Servers of the shared log that it has heard from in the last 15 seconds."},
    {"log_take_seconds", NULL, LD_HISTOGRAM, IN_US, FIELD(shared.take_time), "From the wish for a tenant's turn to having it."},
    {"log_append_seconds", NULL, LD_HISTOGRAM, IN_US, FIELD(shared.append_time), "Commits in the shared log."},
    {"log_outcomes_total", "outcome=\"ok\"", LD_COUNTER, 1, FIELD(shared.outcomes[LD_LOG_OK]), OUTCOMES_HELP},
    {"log_outcomes_total", "outcome=\"behind\"", LD_COUNTER, 1, FIELD(shared.outcomes[LD_LOG_BEHIND]), OUTCOMES_HELP},
    {"log_outcomes_total", "outcome=\"unknown\"", LD_COUNTER, 1, FIELD(shared.outcomes[LD_LOG_UNKNOWN]), OUTCOMES_HELP},
    {"log_outcomes_total", "outcome=\"down\"", LD_COUNTER, 1, FIELD(shared.outcomes[LD_LOG_DOWN]), OUTCOMES_HELP},
    {"log_unknown_resolved_total", "in=\"no\"", LD_COUNTER, 1, FIELD(shared.resolved[0]), RESOLVED_HELP},
    {"log_unknown_resolved_total", "in=\"yes\"", LD_COUNTER, 1, FIELD(shared.resolved[1]), RESOLVED_HELP},
    {"log_polls_total", NULL, LD_COUNTER, 1, FIELD(shared.polls), "Times that the shared log was asked where tenants end."},
    {"log_poll_failures_total", NULL, LD_COUNTER, 1, FIELD(shared.poll_failures), "Those that had no answer."},
    {"lag_seconds", NULL, LD_GAUGE, IN_US, FIELD(shared.lag_us), "How long a line has been in the shared log that is not folded here, at most."},
    {"generation_lag", NULL, LD_GAUGE, 1, FIELD(shared.generation_lag), "Tenants of which lines were rewritten in the shared log (a user was erased) that are not renewed here."},
    {"followed_total", NULL, LD_COUNTER, 1, FIELD(shared.followed_rows), "Lines of other servers that were folded here."},
    {"decided_anew_total", NULL, LD_COUNTER, 1, FIELD(shared.decided_anew), "Decisions that were out of date when their turn came, and were made again."},
    {"unrecorded_total", NULL, LD_COUNTER, 1, FIELD(shared.unrecorded), "Decisions that were answered while the log was away, and are recorded nowhere."},
    {"chain_breaks_total", NULL, LD_COUNTER, 1, FIELD(shared.chain_breaks), "Times that the shared log was found to have other lines than the copy here."},
};
/* clang-format on */
const size_t ld_n_shared_metrics = sizeof ld_shared_metric_table / sizeof *ld_shared_metric_table;

/* --- counting ------------------------------------------------------------------------------------------- */

/* It never falls. Negative values count as 0. */
void ld_raise(_Atomic uint64_t *max, int64_t value)
{
    uint64_t seen = atomic_load_explicit(max, memory_order_relaxed);
    while (
        value > 0 && (uint64_t)value > seen &&
        !atomic_compare_exchange_weak_explicit(max, &seen, (uint64_t)value, memory_order_relaxed, memory_order_relaxed))
        ;
}

static size_t bucket_of(uint64_t value)
{
    size_t i = 0;
    while (i < LD_HIST_BUCKETS && value > ld_hist_bound[i])
        i++;
    return i;
}

/* Negative durations (a clock that stepped back) count as 0. Relaxed operations. From any thread. They need not be seen
 * together: a scrape in between is off by one request. */
void ld_histogram_add(struct ld_histogram *h, int64_t us)
{
    const uint64_t value = us > 0 ? (uint64_t)us : 0;
    ld_raise(&h->max, us);
    ld_count(&h->bucket[bucket_of(value)], 1);
    ld_count(&h->sum, value);
}

uint64_t ld_histogram_count(const struct ld_histogram *h)
{
    uint64_t n = 0;
    for (size_t i = 0; i <= LD_HIST_BUCKETS; i++)
        n += atomic_load_explicit(&h->bucket[i], memory_order_relaxed);
    return n;
}

/* The statuses that the contract has, and a few that the library may come to give. Most answers are found at once. */
static const int statuses[LD_N_STATUSES] = {200, 201, 202, 204, 400, 401, 403, 404, 405, 408, 409, 410, 411, 412, 413,
                                            414, 415, 417, 422, 428, 429, 431, 500, 501, 502, 503, 504, 505, 507};

int ld_status_of_slot(size_t slot)
{
    return slot < LD_N_STATUSES ? statuses[slot] : 0;
}

size_t ld_slot_of_status(int status)
{
    size_t i = 0;
    while (i < LD_N_STATUSES - 1 && statuses[i] != status)
        i++;
    return i;
}

/* Two relaxed additions, some tens of nanoseconds. Rows between the table's end and the last one are never used. */
void ld_count_request(struct ld_metrics *m, int route, int status, int64_t us)
{
    struct ld_request_counts *row = &m->requests[route >= 0 && route < LD_MAX_ROUTES ? route : LD_MAX_ROUTES - 1];
    const uint64_t value = us > 0 ? (uint64_t)us : 0;
    ld_count(&row->n[ld_slot_of_status(status)][bucket_of(value)], 1);
    ld_count(&row->sum_us, value);
}
