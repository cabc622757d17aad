/* Which requests get a line in the log. */
#ifndef LD_REQUEST_LOG_H
#define LD_REQUEST_LOG_H

/* In the order of the words of --log-requests. */
enum ld_log_requests { LD_LOG_ALL, LD_LOG_SLOW, LD_LOG_ERRORS, LD_LOG_NO_REQUESTS };

#endif
