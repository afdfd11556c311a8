//! Fail points, for tests of crashes: debug builds only.
//!
//! `CAIRN_FAIL_COMMIT=before:7` or `after:7` kills this process around the seventh commit of the
//! store, as `kill -9` would; `count:/path/file` appends a line to a file for each; `slow:20` makes each
//! take 20 ms longer, as a busy disk would.
//!
//! `CAIRN_SABOTAGE=fencing,duplicates,leases,gate` takes checks out, one or several: the store takes
//! transitions of anybody; it makes those again that are sent again; owners do not look at the end of
//! their leases; tools begin calls that come too late. By this one sees that a test notices what is
//! missing.
//!
//! `CAIRN_LEVEL=2` makes this process one of another release: it claims, reports and reads as one of that
//! level, and what it writes is marked with the level if it is above the release's own. So an older and a
//! newer process run from one program.
//!
//! `CAIRN_POOL_TIMES=100,500,1000` shortens what the pool waits for, in milliseconds: until a busy capability is
//! reported, until one that no resource has is, and until a running attempt that lost its capability stops.

use crate::error::CliError;
use cairn_boot::Environment;
use cairn_engine::level::LEVEL;
use cairn_memory::fail_point::{CommitHook, When};
use cairn_memory::sabotage::Sabotage;
use rustix::process::{Signal, getpid, kill_process};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const VARIABLE: &str = "CAIRN_FAIL_COMMIT";

const SABOTAGE: &str = "CAIRN_SABOTAGE";

const OTHER_LEVEL: &str = "CAIRN_LEVEL";

const POOL_TIMES: &str = "CAIRN_POOL_TIMES";

/// How long the pool waits, in place of the usual times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolTimes {
    /// Until a shortage is reported of which all resources are busy.
    pub(crate) stop: Duration,
    /// Until one is reported that no resource can end.
    pub(crate) none: Duration,
    /// Until a running attempt stops whose resources lost a capability.
    pub(crate) lost: Duration,
}

/// Checks that are taken out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sabotaged {
    /// Of the store.
    pub(crate) store: Sabotage,
    /// Owners do not look at the end of their leases.
    pub(crate) leases: bool,
    /// Tools begin calls that come too late.
    pub(crate) gate: bool,
}

/// The checks that the environment takes out.
pub(crate) fn sabotage(environment: &Environment) -> Result<Sabotaged, CliError> {
    let mut sabotaged = Sabotaged::default();
    let text = environment.get(SABOTAGE).unwrap_or_default();
    for name in text.split(',').filter(|name| !name.is_empty()) {
        match name {
            "fencing" => sabotaged.store.fencing = true,
            "duplicates" => sabotaged.store.duplicates = true,
            "leases" => sabotaged.leases = true,
            "gate" => sabotaged.gate = true,
            _ => {
                return Err(CliError::usage(format!("{SABOTAGE} is {text:?}"))
                    .hint("allowed, with commas between them: fencing, duplicates, leases, gate"));
            }
        }
    }
    Ok(sabotaged)
}

/// The level of this process: its release's, unless the environment names another one.
pub(crate) fn level(environment: &Environment) -> Result<u32, CliError> {
    let Some(text) = environment.get(OTHER_LEVEL) else {
        return Ok(LEVEL);
    };
    let level = text.parse().ok().filter(|level| *level > 0);
    level.ok_or_else(|| {
        CliError::usage(format!("{OTHER_LEVEL} is {text:?}")).hint("allowed: a whole number from 1")
    })
}

/// The times of the pool that the environment names.
pub(crate) fn pool_times(environment: &Environment) -> Result<Option<PoolTimes>, CliError> {
    let Some(text) = environment.get(POOL_TIMES) else {
        return Ok(None);
    };
    let times = text.split(',').map(|ms| ms.trim().parse::<u64>().ok());
    let times: Option<Vec<Duration>> = times.map(|ms| ms.map(Duration::from_millis)).collect();
    match times.as_deref() {
        Some(&[stop, none, lost]) => Ok(Some(PoolTimes { stop, none, lost })),
        _ => Err(CliError::usage(format!("{POOL_TIMES} is {text:?}"))
            .hint("allowed: three numbers of milliseconds with commas between them")),
    }
}

/// The fail point that the environment asks for.
pub(crate) fn hook(environment: &Environment) -> Result<Option<CommitHook>, CliError> {
    let Some(text) = environment.get(VARIABLE) else {
        return Ok(None);
    };
    let wrong = || {
        CliError::usage(format!("{VARIABLE} is {text:?}"))
            .hint("allowed: before:<n>, after:<n>, count:<file>, slow:<ms>")
    };
    let (what, value) = text.split_once(':').ok_or_else(wrong)?;
    let hook = match what {
        "before" => kill_at(When::Before, value.parse().map_err(|_| wrong())?),
        "after" => kill_at(When::After, value.parse().map_err(|_| wrong())?),
        "count" => count(PathBuf::from(value)),
        "slow" => slow(value.parse().map_err(|_| wrong())?),
        _ => return Err(wrong()),
    };
    Ok(Some(hook))
}

fn kill_at(side: When, number: u64) -> CommitHook {
    Arc::new(move |commit, when| {
        if commit == number && when == side {
            // It cannot fail for the process itself, and does not return when it works.
            let _ = kill_process(getpid(), Signal::KILL);
        }
    })
}

fn slow(ms: u64) -> CommitHook {
    Arc::new(move |_, when| {
        if when == When::Before {
            // The store commits in a thread of its own.
            std::thread::sleep(Duration::from_millis(ms));
        }
    })
}

fn count(path: PathBuf) -> CommitHook {
    Arc::new(move |commit, when| {
        if when == When::After
            && let Ok(mut file) = OpenOptions::new().create(true).append(true).open(&path)
        {
            // A test that counts too few lines finds out by itself.
            let _ = writeln!(file, "{commit}");
        }
    })
}
