/* The program's version, in --version, the log and the metrics. */
#ifndef LD_VERSION_H
#define LD_VERSION_H

#define LD_VERSION "1.0.0"

#endif
