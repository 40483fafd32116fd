/* SPDX-License-Identifier: GPL-3.0-or-later
 * Copyright: (c) 2026, virtops.maintenance contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 *
 * PID 1 of a lab guest. It proves on its serial line that it runs, once, with
 * its memory and its disks unharmed. Every line carries the boot id, which is
 * random at each boot:
 *
 *   B <boot> start                           the first line
 *   T <boot> <seq> ;                         a tick
 *   M <boot> <seq> ok passes=<n>             memory as it should be
 *   M <boot> <seq> err <where> <count>       memory damaged
 *   D <boot> <disk> new|old <diskid> <seq>   a disk as found at the start
 *   D <boot> <disk> ok <seq>                 written and read back so far
 *   D <boot> <disk> err <what>               lost, stale, foreign or failing
 *   P <boot> ignored                         power button, not obeyed
 *   DOWN <boot> <seq> acpi                   orderly end; the last line
 *
 * Parameters, on the kernel command line: lab.tick (ms), lab.fill (MiB),
 * lab.dirty (MiB/s), lab.region (MiB), lab.disks (how many there must be),
 * lab.disk (ms between writes), lab.noacpi, lab.flip (at this tick it damages
 * its own memory, for a test that this is seen).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/input.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define PAGE 4096
#define WORDS (PAGE / 8)
#define RING 64                 /* blocks of a disk that hold old sequences */
#define VERIFY_PAGES 64         /* pages looked at per tick ... */
#define VERIFY_WORDS 16         /* ... and words in each */

static char boot[17];
static uint64_t seed;
static int tty = -1;
static pthread_mutex_t tty_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned long seq;

/* ---- small things ---- */

static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void sleep_ms(long ms)
{
    struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
    nanosleep(&t, NULL);
}

static void put(const char *text, size_t length)
{
    while (length > 0) {
        ssize_t done = write(tty, text, length);
        if (done > 0) {
            text += done;
            length -= done;
        }
    }
}

/* One whole line; several threads speak. */
static void say(const char *format, ...)
{
    char line[160];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    pthread_mutex_lock(&tty_lock);
    put(line, length);
    pthread_mutex_unlock(&tty_lock);
}

/* ---- start ---- */

static char cmdline[4096];

static long parameter(const char *name, long otherwise)
{
    size_t length = strlen(name);
    for (char *at = cmdline; (at = strstr(at, name)) != NULL; at += length) {
        if (at != cmdline && at[-1] != ' ')
            continue;
        if (at[length] == '=')
            return atol(at + length + 1);
        if (at[length] == ' ' || at[length] == '\n' || at[length] == 0)
            return 1;
    }
    return otherwise;
}

static void load_modules(void)
{
    struct dirent **names;
    int count = scandir("/modules", &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char path[300];
        if (names[i]->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/modules/%s", names[i]->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) != 0 && errno != EEXIST))
            dprintf(tty, "X module %s: %s\n", names[i]->d_name, strerror(errno));
        close(fd);
    }
}

static void open_tty(void)
{
    struct termios t;
    tty = open("/dev/ttyS0", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (tcgetattr(tty, &t) == 0) {
        cfmakeraw(&t);
        cfsetspeed(&t, B115200);
        t.c_cflag |= CLOCAL;
        tcsetattr(tty, TCSANOW, &t);
    }
}

/* The random pool may be empty this early: mix in the clocks as well. */
static void make_boot_id(void)
{
    uint64_t pool[2] = { 0, 0 };
    struct timespec t;
    getrandom(pool, sizeof pool, GRND_INSECURE);
    clock_gettime(CLOCK_REALTIME, &t);
    seed = mix(pool[0] ^ mix(__rdtsc()) ^ mix(t.tv_sec * 1000000007ull + t.tv_nsec) ^ pool[1]);
    snprintf(boot, sizeof boot, "%016llx", (unsigned long long)seed);
    boot[8] = 0;
}

/* ---- memory ---- */

/* Filled once and only read: every word follows from its place. */
static uint64_t *fill;
static size_t fill_pages, fill_at, fill_passes;
/* Rewritten all the time: the first word of a page says when it was last. */
static uint64_t *region;
static size_t region_pages, region_at, region_pass;
static unsigned long memory_errors;

static uint64_t stamp(size_t page, size_t pass)
{
    return mix(seed ^ 0x5bd1e995u ^ (page << 32) ^ pass);
}

static uint64_t *map_mib(long mib)
{
    void *at = mmap(NULL, (size_t)mib << 20, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void memory_start(long fill_mib, long region_mib)
{
    if (fill_mib > 0 && (fill = map_mib(fill_mib)) != NULL) {
        fill_pages = ((size_t)fill_mib << 20) / PAGE;
        for (size_t i = 0; i < fill_pages * WORDS; i++)
            fill[i] = mix(seed + i);
    }
    if (region_mib > 0 && (region = map_mib(region_mib)) != NULL) {
        region_pages = ((size_t)region_mib << 20) / PAGE;
        for (size_t i = 0; i < region_pages * WORDS; i++)
            region[i] = mix(~seed + i);
        for (size_t page = 0; page < region_pages; page++)
            region[page * WORDS] = stamp(page, 0);
    }
}

static void memory_bad(const char *where, size_t page)
{
    static uint64_t last;
    memory_errors++;
    if (memory_errors == 1 || now_ms() - last > 1000) {
        last = now_ms();
        say("M %s %lu err %s-page-%zu %lu\n", boot, seq, where, page, memory_errors);
    }
}

static void memory_verify(void)
{
    for (int n = 0; n < VERIFY_PAGES && fill_pages > 0; n++) {
        uint64_t *page = fill + fill_at * WORDS;
        for (size_t i = 0; i < VERIFY_WORDS; i++) {
            /* Other words in each pass, so that in the end all were read. */
            size_t word = (i * (WORDS / VERIFY_WORDS) + fill_passes) % WORDS;
            if (page[word] != mix(seed + fill_at * WORDS + word)) {
                memory_bad("fill", fill_at);
                break;
            }
        }
        if (++fill_at == fill_pages) {
            fill_at = 0;
            fill_passes++;
        }
    }
}

/* Each page must hold what the pass before left there. */
static void memory_dirty(size_t pages)
{
    while (pages-- > 0 && region_pages > 0) {
        uint64_t *page = region + region_at * WORDS;
        if (page[0] != stamp(region_at, region_pass))
            memory_bad("region", region_at);
        page[0] = stamp(region_at, region_pass + 1);
        if (++region_at == region_pages) {
            region_at = 0;
            region_pass++;
        }
    }
}

/* One word of each kind, on a page in the middle and, of what is only read, within it. */
static void memory_damage(void)
{
    if (fill_pages > 0)
        fill[fill_pages / 2 * WORDS + WORDS / 2 + 13] ^= 1;
    if (region_pages > 0)
        region[region_pages / 2 * WORDS] ^= 1;
}

/* ---- disks ---- */

struct block {
    char magic[8];
    uint64_t disk, seq, slot, boot, sum;
    char rest[PAGE - 48];
};

struct disk {
    char name[16];
    int fd;
    uint64_t id, seq;
    struct block *block;
};

static long disk_ms;

static uint64_t sum_of(const struct block *b)
{
    return mix(b->disk ^ mix(b->seq ^ mix(b->slot ^ mix(b->boot))));
}

static int disk_write(struct disk *d, uint64_t slot, uint64_t number)
{
    struct block *b = d->block;
    memset(b, 0, sizeof *b);
    memcpy(b->magic, "VOPSDISK", 8);
    b->disk = d->id;
    b->seq = number;
    b->slot = slot;
    b->boot = seed;
    b->sum = sum_of(b);
    return pwrite(d->fd, b, PAGE, slot * PAGE) == PAGE && fdatasync(d->fd) == 0 ? 0 : -1;
}

/* What stands in a slot: NULL if it is `number` of this disk, else what is wrong. */
static const char *disk_check(struct disk *d, uint64_t slot, uint64_t number)
{
    struct block *b = d->block;
    if (pread(d->fd, b, PAGE, slot * PAGE) != PAGE)
        return "io-read";
    if (memcmp(b->magic, "VOPSDISK", 8) != 0)
        return "empty";
    if (b->sum != sum_of(b) || b->slot != slot)
        return "damaged";
    if (b->disk != d->id)
        return "foreign";
    if (b->seq != number)
        return b->seq < number ? "stale" : "ahead";
    return NULL;
}

static uint64_t slot_of(uint64_t number)
{
    return 1 + number % RING;
}

/* Read what an earlier boot left, or begin on an empty disk. */
static const char *disk_open(struct disk *d)
{
    struct block *b = d->block;
    if (pread(d->fd, b, PAGE, 0) != PAGE)
        return "io-read";
    int blank = 1;
    for (size_t i = 0; i < WORDS; i++)
        blank &= ((uint64_t *)b)[i] == 0;
    if (blank) {
        d->id = mix(seed ^ (uint64_t)d->name[2] << 8 ^ now_ms());
        d->seq = 0;
        say("D %s %s new %016llx 0\n", boot, d->name, (unsigned long long)d->id);
        return disk_write(d, 0, 0) == 0 ? NULL : "io-write";
    }
    if (memcmp(b->magic, "VOPSDISK", 8) != 0 || b->sum != sum_of(b) || b->slot != 0)
        return "foreign";
    d->id = b->disk;
    d->seq = b->seq;
    say("D %s %s old %016llx %llu\n", boot, d->name, (unsigned long long)d->id,
        (unsigned long long)d->seq);
    /* All that is still kept; the oldest slot may already hold the next one. */
    uint64_t from = d->seq >= RING ? d->seq - RING + 2 : 1;
    for (uint64_t n = from; n <= d->seq; n++) {
        const char *wrong = disk_check(d, slot_of(n), n);
        if (wrong != NULL)
            return wrong;
    }
    return NULL;
}

static const char *disk_step(struct disk *d)
{
    const char *wrong = disk_check(d, 0, d->seq);
    uint64_t next = d->seq + 1;
    if (wrong == NULL && d->seq > 0)
        wrong = disk_check(d, slot_of(d->seq), d->seq);
    /* The slot that is about to be used again: the oldest that we know of. */
    if (wrong == NULL && next > RING + 1) {
        wrong = disk_check(d, slot_of(next), next - RING);
        if (wrong != NULL && d->block->seq == next)
            wrong = NULL;       /* power was cut between slot and header */
    }
    if (wrong != NULL)
        return wrong;
    if (disk_write(d, slot_of(next), next) != 0 || disk_write(d, 0, next) != 0)
        return "io-write";
    d->seq = next;
    return disk_check(d, 0, next);
}

static void *disk_thread(void *argument)
{
    struct disk *d = argument;
    const char *wrong = disk_open(d);
    for (unsigned long round = 0;; round++) {
        if (wrong == NULL)
            wrong = disk_step(d);
        if (wrong != NULL) {
            /* A wrong disk is left as it is: nothing is written over it. */
            say("D %s %s err %s\n", boot, d->name, wrong);
            sleep_ms(1000);
            wrong = strncmp(wrong, "io-", 3) == 0 ? NULL : wrong;
            continue;
        }
        if (round % 4 == 0)
            say("D %s %s ok %llu\n", boot, d->name, (unsigned long long)d->seq);
        sleep_ms(disk_ms);
    }
    return NULL;
}

static void start_thread(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    pthread_create(&thread, &attributes, run, argument);
}

static void disks_start(long count)
{
    for (long i = 0; i < count; i++) {
        char path[32];
        struct disk *d = calloc(1, sizeof *d);
        snprintf(d->name, sizeof d->name, "vd%c", (char)('a' + i));
        snprintf(path, sizeof path, "/dev/%s", d->name);
        for (int tries = 0; tries < 100; tries++) {
            d->fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
            if (d->fd >= 0)
                break;
            sleep_ms(50);
        }
        d->block = aligned_alloc(PAGE, PAGE);
        if (d->fd < 0)
            say("D %s %s err missing\n", boot, d->name);
        else
            start_thread(disk_thread, d);
    }
}

/* ---- power button ---- */

static long noacpi;

static void go_down(void)
{
    char line[64];
    int length;
    /* Kept for good: nothing is said after the last line. */
    pthread_mutex_lock(&tty_lock);
    length = snprintf(line, sizeof line, "DOWN %s %lu acpi\n", boot, seq);
    put(line, length);
    tcdrain(tty);
    sync();
    reboot(RB_POWER_OFF);
}

static void *power_thread(void *argument)
{
    int fd = *(int *)argument;
    struct input_event event;
    while (read(fd, &event, sizeof event) == sizeof event) {
        if (event.type != EV_KEY || event.code != KEY_POWER || event.value != 1)
            continue;
        if (!noacpi)
            go_down();
        say("P %s ignored\n", boot);
    }
    return NULL;
}

static void power_start(void)
{
    static int fds[8];
    for (int i = 0; i < 8; i++) {
        char path[32];
        unsigned char keys[KEY_MAX / 8 + 1] = { 0 };
        snprintf(path, sizeof path, "/dev/input/event%d", i);
        fds[i] = open(path, O_RDONLY | O_CLOEXEC);
        if (fds[i] < 0)
            continue;
        ioctl(fds[i], EVIOCGBIT(EV_KEY, sizeof keys), keys);
        if (keys[KEY_POWER / 8] & 1 << KEY_POWER % 8)
            start_thread(power_thread, &fds[i]);
    }
}

/* ---- the guest's agent: it is there, and dies when it is asked anything ---- */

static void *agent_thread(void *argument)
{
    struct dirent **names;
    char path[300], asked[256];
    int count = scandir("/dev", &names, NULL, alphasort);
    (void)argument;
    for (int i = 0; i < count; i++) {
        if (strncmp(names[i]->d_name, "vport", 5) != 0)
            continue;
        snprintf(path, sizeof path, "/dev/%s", names[i]->d_name);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        /* Without a host at the other end a read answers 0 at once. */
        while (fd >= 0 && read(fd, asked, sizeof asked) == 0)
            sleep_ms(100);
        close(fd);
    }
    return NULL;
}

/* ---- for an emulated CPU ---- */

/*
 * QEMU before 9.0 does not see, in a migration of an emulated guest, writes through a TLB entry
 * that was there when it last read which pages are dirty ("physmem: Fix migration dirty bitmap
 * coherency with TCG memory access"). What is written all the time through the same entries, the
 * kernel's stacks, is then stale on the target. A switch between two address spaces empties the
 * TLB: so there is a second process, which does nothing, often.
 */
static void empty_tlb_often(void)
{
    if (fork() != 0)
        return;
    for (;;)
        sleep_ms(40);
}

/* ---- the life of a guest ---- */

static void tick_for_ever(long tick_ms, double dirty_per_ms, unsigned long flip_tick)
{
    uint64_t before = now_ms(), next = before;
    double owed = 0;
    for (;;) {
        seq++;
        say("T %s %lu ;\n", boot, seq);
        if (seq == flip_tick)
            memory_damage();
        uint64_t now = now_ms();
        uint64_t passed = now - before > 200 ? 200 : now - before;
        before = now;
        owed += passed * dirty_per_ms;
        memory_dirty((size_t)owed);
        owed -= (size_t)owed;
        memory_verify();
        if (seq % 64 == 0 && memory_errors == 0)
            say("M %s %lu ok passes=%zu\n", boot, seq, fill_passes + region_pass);
        next += tick_ms;
        now = now_ms();
        if (next > now)
            sleep_ms(next - now);
        else
            next = now;         /* late: no burst to catch up */
    }
}

int main(void)
{
    mount("dev", "/dev", "devtmpfs", 0, NULL);
    mount("proc", "/proc", "proc", 0, NULL);
    mount("sys", "/sys", "sysfs", 0, NULL);
    int fd = open("/proc/cmdline", O_RDONLY);
    if (read(fd, cmdline, sizeof cmdline - 1) < 0)
        cmdline[0] = 0;
    close(fd);
    open_tty();
    load_modules();
    make_boot_id();
    empty_tlb_often();
    say("B %s start\n", boot);
    noacpi = parameter("lab.noacpi", 0);
    disk_ms = parameter("lab.disk", 500);
    power_start();
    if (parameter("lab.agent", 0))
        start_thread(agent_thread, NULL);
    memory_start(parameter("lab.fill", 16), parameter("lab.region", 0));
    disks_start(parameter("lab.disks", 0));
    tick_for_ever(parameter("lab.tick", 40),
                  parameter("lab.dirty", 0) * 1048576.0 / PAGE / 1000.0,
                  parameter("lab.flip", 0));
    return 0;
}
