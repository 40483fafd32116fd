/* SPDX-License-Identifier: GPL-3.0-or-later
 * Copyright: (c) 2026, virtops.maintenance contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 *
 * A host of the lab whose clock is wrong, for the Python that begins there: no namespace has a wall clock of its own.
 * Preloaded by its /etc/ld.so.preload; by how many seconds stands in /etc/lab-clock. libvirtd and QEMU keep the right
 * one, since they wait until times of that clock, which the kernel would not know.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

static long long wrong;

__attribute__((constructor)) static void begin(void)
{
    FILE *file = strncmp(program_invocation_short_name, "python", 6) ? NULL : fopen("/etc/lab-clock", "r");

    if (file && fscanf(file, "%lld", &wrong) != 1)
        wrong = 0;
    if (file)
        fclose(file);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(clock, now);

    if (!done && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += wrong;
    return done;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int (*real)(struct timeval *, void *) = dlsym(RTLD_NEXT, "gettimeofday");
    int done = real(now, zone);

    now->tv_sec += wrong;
    return done;
}

time_t time(time_t *at)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}
