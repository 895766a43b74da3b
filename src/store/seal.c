#include "store/seal.h"

#include "base/memory.h"
#include "store/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static const char magic[8] = {'I', 'N', 'V', 'R', 'S', 'E', 'A', 'L'};

/* Some kernels refuse more than 2 GiB at once. */
#define CHUNK ((size_t)1 << 30)

static void make_trailer(const void *content, size_t n, const void *note, size_t m, unsigned char trailer[SEAL_BYTES])
{
    memcpy(trailer, magic, 8);
    for (int i = 0; i < 8; i++)
        trailer[8 + i] = (unsigned char)((uint64_t)n >> (8 * i));
    XXH3_state_t *state = XXH3_createState();
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, content, n);
    XXH3_128bits_update(state, note, m);
    XXH3_128bits_update(state, trailer, 16);
    XXH128_canonical_t sum;
    XXH128_canonicalFromHash(&sum, XXH3_128bits_digest(state));
    XXH3_freeState(state);
    memcpy(trailer + 16, sum.digest, 16);
}

static uint64_t length_in(const unsigned char trailer[SEAL_BYTES])
{
    uint64_t length = 0;
    for (int i = 0; i < 8; i++)
        length |= (uint64_t)trailer[8 + i] << (8 * i);
    return length;
}

/* 0, or errno. */
static int write_all(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;
    while (n) {
        ssize_t done = write(fd, p, n < CHUNK ? n : CHUNK);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return errno;
        if (done == 0)
            return EIO;
        p += done;
        n -= (size_t)done;
    }
    return 0;
}

/* Bytes read until `n` or the end of the file; -1 with errno. */
static ssize_t read_all(int fd, void *bytes, size_t n)
{
    size_t have = 0;
    while (have < n) {
        size_t want = n - have < CHUNK ? n - have : CHUNK;
        ssize_t got = read(fd, (char *)bytes + have, want);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}


enum status seal_write(const char *path, const void *content, size_t n, const char *note)
{
    unsigned char trailer[SEAL_BYTES];
    size_t m = strlen(note);
    make_trailer(content, n, note, m, trailer);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        publish_error_set(errno);
        return status_fail(STATUS_IO, "%s: cannot be created: %s", path, strerror(errno));
    }
    int error = write_all(fd, content, n);
    if (!error)
        error = write_all(fd, note, m);
    if (!error)
        error = write_all(fd, trailer, sizeof trailer);
    if (close(fd) && !error)
        error = errno;
    if (!error)
        return STATUS_OK;
    unlink(path);
    publish_error_set(error);
    return status_fail(STATUS_IO, "%s: cannot write %zu bytes: %s", path, n + m + sizeof trailer, strerror(error));
}

/* Reads the open file whole; *bytes is the caller's. */
static enum status read_file(int fd, const char *path, char **bytes, size_t *n)
{
    struct stat st;
    if (fstat(fd, &st))
        return status_fail(STATUS_IO, "%s: cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return status_fail(STATUS_CORRUPT, "%s: is not a regular file", path);
    size_t size = (size_t)st.st_size;
    char *p = memory_new(size, 1);
    ssize_t got = read_all(fd, p, size);
    if (got != (ssize_t)size) {
        int error = errno;
        memory_free(p);
        return got < 0 ? status_fail(STATUS_IO, "%s: cannot be read: %s", path, strerror(error))
                       : status_fail(STATUS_CORRUPT, "%s: became shorter while it was read", path);
    }
    *bytes = p;
    *n = size;
    return STATUS_OK;
}

/* out: *length of the content */
static enum status verify(const char *path, const char *bytes, size_t n, size_t *length)
{
    if (n < SEAL_BYTES || memcmp(bytes + n - SEAL_BYTES, magic, sizeof magic))
        return status_fail(STATUS_CORRUPT, "%s: has no checksum at its end: it was cut short, or another program wrote "
                           "it", path);
    unsigned char found[SEAL_BYTES], trailer[SEAL_BYTES];
    memcpy(found, bytes + n - SEAL_BYTES, SEAL_BYTES);
    uint64_t claimed = length_in(found), whole = n - SEAL_BYTES, content = claimed < whole ? claimed : whole;
    make_trailer(bytes, content, bytes + content, whole - content, trailer);
    if (memcmp(trailer, found, SEAL_BYTES))
        return status_fail(STATUS_CORRUPT, "%s: its checksum does not fit its content: it was changed or damaged",
                           path);
    *length = content;
    return STATUS_OK;
}

enum status seal_read(const char *path, struct sealed *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return status_fail(STATUS_IO, "%s: cannot be opened: %s", path, strerror(errno));
    char *bytes = NULL;
    size_t size = 0, length = 0;
    enum status s = read_file(fd, path, &bytes, &size);
    close(fd);
    if (s == STATUS_OK)
        s = verify(path, bytes, size, &length);
    if (s != STATUS_OK) {
        memory_free(bytes);
        return s;
    }
    bytes[size - SEAL_BYTES] = '\0';           /* the trailer has served: the note ends here */
    *out = (struct sealed){.content = bytes, .length = length, .note = bytes + length};
    return STATUS_OK;
}
