//! A clock that is ahead: a library that is loaded before the server's own, and adds to the time of
//! day. Needs a compiler for C, which whoever builds this has for linking.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec += AHEAD;
    return result;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec precise;
    int result = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return result;
}

time_t time(time_t *told) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (told) *told = now.tv_sec;
    return now.tv_sec;
}
"#;

/// Makes the library in a folder and tells where it is.
///
/// # Panics
/// If there is no compiler.
pub(super) fn ahead(by: Duration, folder: &Path) -> PathBuf {
    let name = format!("clock-{}", by.as_secs());
    let (source, library) = (folder.join(&name).with_extension("c"), folder.join(&name));
    std::fs::write(&source, SOURCE).expect("a source file");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", &format!("-DAHEAD={}", by.as_secs())])
        .arg("-o")
        .args([&library, &source])
        .arg("-ldl")
        .output()
        .expect("cc, a compiler for C");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    library
}
