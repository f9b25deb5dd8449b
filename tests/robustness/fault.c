/* Preloaded into a process, makes one of its calls to the system fail, stop short, or end it: the n-th call of a named
 * function on a path below a folder. `fault_arm` chooses; the counters lie in shared memory, so that a parent sees
 * what its forked child met. Renames that exchange are system calls made without libc: seccomp meets those. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* What happens at the n-th call; a positive number is an errno for that call alone. */
enum { KILL = -1, SHORT = -2, INTERRUPT = -3, STOP = -4, SIGNAL_INT = -5, SIGNAL_TERM = -6 };

static struct plan {
    char function[16], below[PATH_MAX];
    long at, calls, hits;
    int action;
} *plan;

__attribute__((constructor)) static void begin(void) {
    plan = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (plan == MAP_FAILED) abort();
}

void fault_arm(const char *function, long at, int action, const char *below) {
    snprintf(plan->function, sizeof plan->function, "%s", function);
    snprintf(plan->below, sizeof plan->below, "%s", below);
    plan->at = at, plan->action = action, plan->calls = plan->hits = 0;
}

long fault_calls(void) { return plan->calls; }
long fault_hits(void) { return plan->hits; }

/* From here on, renames with flags give an error, as on a file system that knows none; or those that exchange kill, where it is 0. */
int fault_exchange(int error) {
    unsigned verdict = error ? SECCOMP_RET_ERRNO | (unsigned)error : SECCOMP_RET_KILL_PROCESS;
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[4])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, error ? 0 : 2 /* RENAME_EXCHANGE */, !!error, !error),
        BPF_STMT(BPF_RET | BPF_K, verdict),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return errno;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? errno : 0;
}

static int is_below(int folder, const char *path) {
    char whole[2 * PATH_MAX] = "", link[64];
    size_t used = 0;
    if (path == NULL || path[0] != '/') {
        snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, whole, PATH_MAX);
        if (length < 0) return 0;
        used = (size_t)length;
        whole[used++] = '/';
    }
    snprintf(whole + used, sizeof whole - used, "%s", path ? path : "");
    return strncmp(whole, plan->below, strlen(plan->below)) == 0;
}

/* Whether this call shall fail, with errno set; signals are sent on the way. */
static int fails(const char *function, int folder, const char *path) {
    int saved = errno;
    if (!plan->at || (strcmp(plan->function, function) && strcmp(plan->function, "any"))) return 0;
    if (!is_below(folder, path)) return errno = saved, 0;
    errno = saved;
    long call = __sync_add_and_fetch(&plan->calls, 1);
    int every = plan->action == SHORT || plan->action == INTERRUPT;
    if (every ? call < plan->at : call != plan->at) return 0;
    plan->hits++;
    switch (plan->action) {
        case KILL: kill(getpid(), SIGKILL); pause(); return 0;
        case SHORT: return 0;
        case INTERRUPT: return call % 2 ? (errno = EINTR, 1) : 0;
        case STOP: raise(SIGSTOP); return 0;
        case SIGNAL_INT: kill(getpid(), SIGINT); return 0;
        case SIGNAL_TERM: kill(getpid(), SIGTERM); return 0;
        default: return errno = plan->action, 1;
    }
}

/* A third of what was asked for, where transfers are to stop short. */
static size_t part(const char *function, int file, size_t count) {
    int here = plan->action == SHORT && !strcmp(plan->function, function) && is_below(file, NULL);
    return here && count > 1 ? (count + 2) / 3 : count;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPEN(name)                                                                 \
    int name(const char *path, int flags, ...) {                                   \
        va_list more;                                                              \
        va_start(more, flags);                                                     \
        mode_t mode = (mode_t)va_arg(more, int);                                   \
        va_end(more);                                                              \
        return fails("open", AT_FDCWD, path) ? -1 : REAL(name)(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                    \
    int name(int folder, const char *path, int flags, ...) {                            \
        va_list more;                                                                   \
        va_start(more, flags);                                                          \
        mode_t mode = (mode_t)va_arg(more, int);                                        \
        va_end(more);                                                                   \
        return fails("open", folder, path) ? -1 : REAL(name)(folder, path, flags, mode); \
    }
OPENAT(openat)
OPENAT(openat64)

ssize_t read(int file, void *to, size_t count) {
    return fails("read", file, NULL) ? -1 : REAL(read)(file, to, part("read", file, count));
}

ssize_t pread64(int file, void *to, size_t count, off64_t at) {
    return fails("read", file, NULL) ? -1 : REAL(pread64)(file, to, part("read", file, count), at);
}
ssize_t write(int file, const void *from, size_t count) {
    return fails("write", file, NULL) ? -1 : REAL(write)(file, from, part("write", file, count));
}
ssize_t pwrite64(int file, const void *from, size_t count, off64_t at) {
    return fails("write", file, NULL) ? -1 : REAL(pwrite64)(file, from, part("write", file, count), at);
}
/* Never really done: what the disk keeps after a power cut is not seen here, and it takes most of the time. */
int fsync(int file) { return fails("fsync", file, NULL) ? -1 : 0; }
off_t lseek(int file, off_t at, int from) { return fails("lseek", file, NULL) ? -1 : REAL(lseek)(file, at, from); }
off64_t lseek64(int file, off64_t at, int from) {
    return fails("lseek", file, NULL) ? -1 : REAL(lseek64)(file, at, from);
}
int rename(const char *from, const char *to) {
    return fails("rename", AT_FDCWD, from) ? -1 : REAL(rename)(from, to);
}
int mkdir(const char *path, mode_t mode) { return fails("mkdir", AT_FDCWD, path) ? -1 : REAL(mkdir)(path, mode); }
int rmdir(const char *path) { return fails("rmdir", AT_FDCWD, path) ? -1 : REAL(rmdir)(path); }
int unlink(const char *path) { return fails("unlink", AT_FDCWD, path) ? -1 : REAL(unlink)(path); }
int unlinkat(int folder, const char *path, int flags) {
    return fails(flags & AT_REMOVEDIR ? "rmdir" : "unlink", folder, path) ? -1 : REAL(unlinkat)(folder, path, flags);
}
DIR *opendir(const char *path) { return fails("opendir", AT_FDCWD, path) ? NULL : REAL(opendir)(path); }
struct dirent64 *readdir64(DIR *folder) {
    return fails("readdir", dirfd(folder), NULL) ? NULL : REAL(readdir64)(folder);
}

#define STAT(name, type)                                                          \
    int name(const char *restrict path, struct type *restrict facts) {            \
        return fails("stat", AT_FDCWD, path) ? -1 : REAL(name)(path, facts);      \
    }
STAT(stat, stat)
STAT(lstat, stat)
STAT(stat64, stat64)
STAT(lstat64, stat64)
int statx(int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict facts) {
    /* Rust asks for null to see whether the call exists, which the header says never happens. */
    const char *volatile given = path;
    return given && given[0] && fails("stat", folder, given) ? -1 : REAL(statx)(folder, path, flags, mask, facts);
}
