/* Find the number of threads that a parallel region of the calling thread can have. OpenMP runtimes end the process if
 * they cannot create a thread because of the limit of a cgroup (pids.max), of a user (RLIMIT_NPROC) or of the address
 * space (RLIMIT_AS). Before the first region of each larger size, a trial therefore creates and joins test threads. The
 * stacks of test threads are as large as the stacks of the runtime's threads, and the number of test threads is at most
 * the cgroup's limit. After the trial, the runtime creates at most the number of threads that the trial has created.
 * Numbers of threads that the process has already run need no trial.
 *
 * For a smaller region the runtime ends threads, and for the next larger region it creates new threads. The system may
 * still count the ending threads, so the trial needs room for the ending threads and the new threads. If the system
 * has too little room, no region requests fewer threads than the previous region. The additional threads have no work
 * (see threads.pyx). No region waits for ending threads. */
#ifndef I8_TEAM_H
#define I8_TEAM_H

#include <limits.h>
#include <stddef.h>

#include "core/compiler.h"
#include "core/openmp.h"

/* The maximum number of threads of a region, and the limit of num_threads. */
enum { I8_MOST_THREADS = 1024 };

/* The state of a thread that starts regions. */
typedef struct {
    int limit;        /* limit that num_threads has set; 0: no limit */
    int largest;      /* maximum number of threads of a region or a successful trial so far */
    int last;         /* threads of the last region, including threads without work */
    int creatable;    /* maximum number of threads that a trial could create; 0: unknown */
    int used;         /* threads of the last region after the last reset, for INT8BLAS_VERBOSE */
    double pause_end; /* time before which no region runs (see threads.pyx), in seconds; 0: no pause */
    double pause;     /* length of the pause that ends at pause_end, in seconds */
} i8_team;

/* Read or set an integer that other threads use at the same time, without a lock. */
#if defined(_MSC_VER) && !defined(__clang__)
#define I8_LOAD(x) (*(volatile int *)&(x))
#define I8_STORE(x, value) (*(volatile int *)&(x) = (value))
#else
#define I8_LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define I8_STORE(x, value) __atomic_store_n(&(x), value, __ATOMIC_RELAXED)
#endif

static I8_THREAD_LOCAL i8_team i8_my_team;
/* 1 if the last trial could not create the new threads while the ending threads existed. */
static int i8_teams_fill_room;
static int i8_tries_teams = 1;
static size_t i8_stack_bytes; /* stack size of the runtime's threads; 0: the system's default */

#if defined(_OPENMP) && (defined(__unix__) || defined(__APPLE__))
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __linux__
#include <signal.h>
#include <sys/syscall.h>
#endif

enum {
    I8_TRIED_THREADS = 2 * I8_MOST_THREADS,
    /* Bytes of address space that a trial reserves for allocations of the threads and the runtime. */
    I8_TEAM_MARGIN = 16 << 20,
    /* The maximum number of times to check whether the system still counts a joined thread. The system counts the
     * thread for some microseconds, or longer if another process occupies the CPU. */
    I8_TEAM_LOOKS = 10000
};

/* Return the number in a file of a cgroup, INT_MAX for "max" and for larger numbers, or -1 without the file. */
static int i8_pids_number(const char *folder, const char *name)
{
    char path[PATH_MAX], text[32] = "";
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return -1;
    FILE *file = fopen(path, "r");
    if (!file)
        return -1;
    const char *line = fgets(text, sizeof text, file);
    fclose(file);
    if (!line)
        return -1;
    if (strncmp(text, "max", 3) == 0)
        return INT_MAX;
    char *end;
    const long number = strtol(text, &end, 10);
    return end == text || number < 0 ? -1 : number > INT_MAX ? INT_MAX : (int)number;
}

/* Return the number of threads that pids.max still allows: the minimum over a folder and its parents, up to the folder
 * whose path has `root` characters. */
static int i8_pids_left(char *folder, size_t root)
{
    int left = INT_MAX;
    for (;;) {
        const int limit = i8_pids_number(folder, "pids.max"), now = i8_pids_number(folder, "pids.current");
        if (limit >= 0 && limit < INT_MAX && now >= 0 && limit - now < left)
            left = limit > now ? limit - now : 0;
        char *slash = strrchr(folder, '/');
        if (!slash || slash < folder + root)
            return left;
        *slash = 0;
    }
}

/* Return the number of threads that the cgroups of this process still allow, or INT_MAX without a limit. `list` is
 * /proc/self/cgroup, which has a line "0::/path" for version 2 and "8:pids:/path" for version 1. `root` is the folder
 * where cgroups are mounted. */
static int i8_cgroup_room(const char *list, const char *root)
{
    char line[PATH_MAX], folder[2 * PATH_MAX];
    int room = INT_MAX;
    FILE *file = fopen(list, "r");
    if (!file)
        return room;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        ++names;
        const char *below;
        if (!*names) {
            below = "";
        } else {
            char *rest = names, *name;
            do
                name = strtok_r(rest, ",", &rest);
            while (name && strcmp(name, "pids") != 0);
            if (!name)
                continue;
            below = "/pids";
        }
        snprintf(folder, sizeof folder, "%s%s", root, below);
        const size_t length = strlen(folder);
        snprintf(folder + length, sizeof folder - length, "%s", path);
        for (size_t end = strlen(folder); end > length && folder[end - 1] == '/'; --end)
            folder[end - 1] = 0;
        const int left = i8_pids_left(folder, length);
        if (left < room)
            room = left;
    }
    fclose(file);
    return room;
}

/* New threads of a trial wait until the trial unlocks this mutex. */
static pthread_mutex_t i8_team_gate = PTHREAD_MUTEX_INITIALIZER;
/* A thread holds i8_team_lock during a trial and until the runtime has created the threads. Without the lock, two
 * trials at the same time could both count the last threads that a limit allows. */
static pthread_mutex_t i8_team_lock = PTHREAD_MUTEX_INITIALIZER;

static void *i8_wait_at_gate(void *id)
{
#ifdef __linux__
    *(long *)id = syscall(SYS_gettid);
#else
    (void)id;
#endif
    pthread_mutex_lock(&i8_team_gate);
    pthread_mutex_unlock(&i8_team_gate);
    return NULL;
}

/* Return the number of threads, at most `count`, that can exist at the same time. The threads of the trial have ended
 * on return. */
static int i8_try_threads(int count)
{
    static pthread_t threads[I8_TRIED_THREADS];
    static long ids[I8_TRIED_THREADS];
    int made = 0;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes))
        return 0;
    if (i8_stack_bytes)
        pthread_attr_setstacksize(&attributes, i8_stack_bytes);
    void *margin = mmap(NULL, I8_TEAM_MARGIN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (margin != MAP_FAILED) {
        pthread_mutex_lock(&i8_team_gate);
        while (made < count && pthread_create(&threads[made], &attributes, i8_wait_at_gate, &ids[made]) == 0)
            ++made;
        pthread_mutex_unlock(&i8_team_gate);
        for (int i = 0; i < made; ++i)
            pthread_join(threads[i], NULL);
        munmap(margin, I8_TEAM_MARGIN);
    }
    pthread_attr_destroy(&attributes);
    int counted = 0; /* ended threads that the system still counts, which take room from the runtime's threads */
#ifdef __linux__
    for (int i = 0; i < made; ++i) {
        int looks = 0;
        for (; looks < I8_TEAM_LOOKS && syscall(SYS_tgkill, getpid(), ids[i], 0) == 0; ++looks)
            sched_yield();
        counted += looks == I8_TEAM_LOOKS;
    }
#endif
    return made - counted;
}

/* Let the runtime create the threads of a team. The caller holds the lock. */
static void i8_start_team(int threads)
{
    static int started;
#pragma omp parallel num_threads(threads)
    __atomic_add_fetch(&started, 1, __ATOMIC_RELAXED);
}

/* The sum of `largest - 1` over all living threads, and the largest such sum so far. The lock protects both. */
static int i8_teams_now, i8_teams_ever;
static pthread_key_t i8_team_end;
static int i8_has_team_end; /* 0 if pthread_key_create failed; then trials run more often than needed */
static pthread_once_t i8_team_once = PTHREAD_ONCE_INIT;

/* Subtract the threads of a team from the sum when the thread that owns the team ends. `others` is the number of other
 * threads of the team, cast to a pointer. */
static void i8_leave_team(void *others)
{
    pthread_mutex_lock(&i8_team_lock);
    i8_teams_now -= (int)(intptr_t)others;
    pthread_mutex_unlock(&i8_team_lock);
}

static void i8_make_key(void)
{
    i8_has_team_end = pthread_key_create(&i8_team_end, i8_leave_team) == 0;
}

/* Return the number of threads, at most `count`, that the cgroups and the system allow. */
static int i8_allowed_threads(int count)
{
    const int room = i8_cgroup_room("/proc/self/cgroup", "/sys/fs/cgroup");
    const int limit = room < I8_TRIED_THREADS ? room : I8_TRIED_THREADS;
    return i8_try_threads(count < limit ? count : limit);
}

/* Return the number of threads, at most `wanted`, of a region that follows a region of `last` threads, while `others`
 * threads of all teams end. On return, the runtime has created the threads of the region. */
static int i8_tried_team(int wanted, int last, int others)
{
    const int more = wanted - last;
    const int allowed = i8_allowed_threads(more + others);
    const int threads = last + (allowed < more ? allowed : more);
    I8_STORE(i8_teams_fill_room, allowed < more + others);
    if (threads > 1)
        i8_start_team(threads);
    return threads;
}

/* Return the number of threads, at most `wanted`, that the next region can have. */
static int i8_make_team(int wanted)
{
    i8_team *team = &i8_my_team;
    const int before = team->largest > 1 ? team->largest : 1, last = team->last > 1 ? team->last : 1;
    if (!i8_tries_teams)
        return team->largest = wanted;
    if (team->creatable && wanted > team->creatable)
        wanted = team->creatable;
    if (wanted > I8_MOST_THREADS)
        wanted = I8_MOST_THREADS;
    if (wanted <= last)
        return wanted;
    int largest = wanted > before ? wanted : before;
    pthread_once(&i8_team_once, i8_make_key);
    pthread_mutex_lock(&i8_team_lock);
    const int others = i8_teams_now + largest - before;
    int threads = wanted;
    if (others > i8_teams_ever || i8_teams_fill_room)
        threads = i8_tried_team(wanted, last, others);
    if (threads < wanted)
        team->creatable = largest = threads;
    i8_teams_now += largest - before;
    if (i8_teams_ever < i8_teams_now)
        i8_teams_ever = i8_teams_now;
    pthread_mutex_unlock(&i8_team_lock);
    if (i8_has_team_end)
        pthread_setspecific(i8_team_end, (void *)(intptr_t)(largest - 1));
    team->largest = largest;
    return threads;
}
#else
static int i8_cgroup_room(const char *list, const char *root)
{
    (void)list, (void)root;
    return INT_MAX;
}

static int i8_make_team(int wanted)
{
    (void)i8_tries_teams, (void)i8_stack_bytes;
    return i8_my_team.largest = wanted;
}
#endif

#endif
