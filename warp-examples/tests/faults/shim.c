// Preloaded into a process, this fails or kills it at one call that changes a folder.
//
// FAULT_FOLDER is the folder, an absolute path; calls on anything outside of it are let through. Each call
// inside is one line, "kind path", of the file FAULT_TRACE. At call number FAULT_AT, counted from 1, what
// FAULT_MODE says happens: `fail` (the call does nothing and returns an error, this once), `kill` (SIGKILL in
// its place), or `torn` (SIGKILL after half of what was to be written).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PASS, FAIL, TORN };

static long n_calls;

// The function that would have been called.
#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static void die(void) {
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    for (;;) pause();
}

// The absolute path of `path`, which is relative to the folder `fd`; of `fd` itself if `path` is empty.
static void resolve(char *out, int fd, const char *path) {
    char base[PATH_MAX] = "";
    if (path[0] != '/') {
        char link[64];
        ssize_t n;
        if (fd == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
        else snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        n = readlink(link, base, sizeof base - 1);
        base[n > 0 ? n : 0] = 0;
    }
    snprintf(out, PATH_MAX, "%s%s%s", base, base[0] && path[0] ? "/" : "", path);
}

// Counts a call, and says what is to become of it.
static int look(const char *kind, int fd, const char *path) {
    const char *folder = getenv("FAULT_FOLDER"), *trace = getenv("FAULT_TRACE");
    const char *at = getenv("FAULT_AT"), *mode = getenv("FAULT_MODE");
    char full[PATH_MAX], line[PATH_MAX + 32];
    int saved = errno, found = PASS;
    if (!folder || !trace || !at || !mode) return PASS;
    resolve(full, fd, path);
    if (strncmp(full, folder, strlen(folder)) == 0) {
        long call = __atomic_add_fetch(&n_calls, 1, __ATOMIC_SEQ_CST);
        int length = snprintf(line, sizeof line, "%s %s\n", kind, full + strlen(folder));
        int file = syscall(SYS_openat, AT_FDCWD, trace, O_WRONLY | O_CREAT | O_APPEND, 0644);
        syscall(SYS_write, file, line, length);
        syscall(SYS_close, file);
        if (call == atol(at)) {
            if (strcmp(mode, "kill") == 0) die();
            found = strcmp(mode, "torn") == 0 ? TORN : FAIL;
        }
    }
    errno = saved;
    return found;
}

// What has no half is killed in its place.
static int fails(const char *kind, int fd, const char *path) {
    int what = look(kind, fd, path);
    if (what == TORN) die();
    if (what == FAIL) errno = EIO;
    return what == FAIL;
}

ssize_t write(int fd, const void *bytes, size_t n) {
    REAL(write);
    switch (look("write", fd, "")) {
    case FAIL: errno = ENOSPC; return -1;
    case TORN: real(fd, bytes, n / 2); die();
    }
    return real(fd, bytes, n);
}

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t n, unsigned flags) {
    REAL(copy_file_range);
    switch (look("write", out, "")) {
    case FAIL: errno = ENOSPC; return -1;
    case TORN: real(in, from, out, to, n / 2, flags); die();
    }
    return real(in, from, out, to, n, flags);
}

int fsync(int fd) {
    REAL(fsync);
    return fails("fsync", fd, "") ? -1 : real(fd);
}

int fdatasync(int fd) {
    REAL(fdatasync);
    return fails("fsync", fd, "") ? -1 : real(fd);
}

int ftruncate64(int fd, off64_t length) {
    REAL(ftruncate64);
    return fails("truncate", fd, "") ? -1 : real(fd, length);
}

// Counted by the new name: with it something is there.
int rename(const char *from, const char *to) {
    REAL(rename);
    return fails("rename", AT_FDCWD, to) ? -1 : real(from, to);
}

int unlink(const char *path) {
    REAL(unlink);
    return fails("unlink", AT_FDCWD, path) ? -1 : real(path);
}

int unlinkat(int fd, const char *path, int flags) {
    REAL(unlinkat);
    return fails("unlink", fd, path) ? -1 : real(fd, path, flags);
}

int rmdir(const char *path) {
    REAL(rmdir);
    return fails("unlink", AT_FDCWD, path) ? -1 : real(path);
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    return fails("mkdir", AT_FDCWD, path) ? -1 : real(path, mode);
}

int open64(const char *path, int flags, ...) {
    REAL(open64);
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if ((flags & O_CREAT) && fails("create", AT_FDCWD, path)) return -1;
    return real(path, flags, mode);
}
