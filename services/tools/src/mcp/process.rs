//! The program of a server: its own process group, no environment but what is listed, its standard error
//! in the log.

use super::mask::REPLACEMENT;
use crate::text;
use cairn_supervise::{Bounds, NOT_STARTED, Supervisor};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Where programs are looked for if the process itself has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// How long a program may take to end once its standard input is closed, and again after SIGTERM.
const END: Duration = Duration::from_secs(2);
/// How long the end of a program is waited for, once its output has ended.
const EXIT: Duration = Duration::from_millis(300);
/// Most bytes of one line of standard error that the log shows.
const MOST_LINE: usize = 1024;
/// Most lines of standard error that the log shows in each [`LINES_TIME`].
const MOST_LINES: u32 = 100;
/// See [`MOST_LINES`].
const LINES_TIME: Duration = Duration::from_secs(10);
/// Most lines of standard error that the reason of an end shows.
const MOST_LAST: usize = 3;
/// Most characters of each of them.
const MOST_LAST_LINE: usize = 300;
/// A secret that is shorter is not looked for in lines: it would be found everywhere.
const SHORTEST_SECRET: usize = 6;

/// What is started.
pub(crate) struct Program<'a> {
    /// The server, for the log.
    pub(crate) server: &'a str,
    pub(crate) command: &'a str,
    pub(crate) args: &'a [String],
    pub(crate) folder: &'a Path,
    /// The whole environment but `PATH`.
    pub(crate) variables: BTreeMap<String, String>,
    /// `PATH` of this process.
    pub(crate) path: Option<&'a String>,
    /// What ends it when this process is killed.
    pub(crate) supervisor: Option<&'a Supervisor>,
    /// What it may do, if it is confined; then it is supervised.
    pub(crate) bounds: Option<Bounds>,
    /// Values that the log must not show.
    pub(crate) secrets: Vec<String>,
}

/// A program that runs. It is killed at the latest when this is dropped, with its process group, or by its
/// supervisor with everything below it.
pub(crate) struct Process {
    child: Child,
    group: Option<Pid>,
    /// It is a supervisor with the program below it.
    is_supervised: bool,
    /// Why its output is no longer read, if it is not.
    pub(crate) refused: Refused,
    log: Option<AbortOnDropHandle<()>>,
    last: LastLines,
}

/// A program, what it writes and what it reads.
pub(crate) type Started = (Process, ChildStdout, ChildStdin);

/// The last lines of a program's standard error, as the log shows them.
#[derive(Clone, Default)]
struct LastLines(Arc<Mutex<VecDeque<String>>>);

impl LastLines {
    fn add(&self, line: &str) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == MOST_LAST {
            lines.pop_front();
        }
        lines.push_back(text::brief(line, MOST_LAST_LINE));
    }

    /// Words that follow what became of the program; nothing if it wrote nothing.
    fn words(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.is_empty() {
            return String::new();
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        format!("; its standard error ends with: {}", lines.join(" | "))
    }
}

/// Why the output of a program is refused.
#[derive(Clone, Default)]
pub(crate) struct Refused(Arc<Mutex<Option<&'static str>>>);

impl Refused {
    pub(crate) fn get(&self) -> Option<&'static str> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, why: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }
}

impl Program<'_> {
    /// Whether the program is there: a supervisor could report that only in the log.
    fn check(&self, path: &str) -> io::Result<()> {
        let is_there = match self.command.contains('/') {
            true => self.folder.join(self.command).exists(),
            false => std::env::split_paths(path).any(|folder| folder.join(self.command).exists()),
        };
        match is_there {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::NotFound,
                "there is no such program",
            )),
        }
    }

    /// Starts it. Returns what it writes and what it reads.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn start(self) -> io::Result<Started> {
        let path = self.path.map_or(DEFAULT_PATH, String::as_str);
        let path = self.variables.get("PATH").map_or(path, String::as_str);
        self.check(path)?;
        let mut command = match self.supervisor {
            Some(supervisor) => supervisor.server(self.bounds.as_ref(), self.command),
            None => Command::new(self.command),
        };
        command
            .args(self.args)
            .env_clear()
            .env("PATH", path)
            .envs(&self.variables)
            .current_dir(self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let last = LastLines::default();
        let log = child.stderr.take().map(|stderr| {
            let log = Log::new(self.server, self.secrets, last.clone());
            AbortOnDropHandle::new(tokio::spawn(log.follow(stderr)))
        });
        let process = Process {
            child,
            group: id.and_then(Pid::from_raw),
            is_supervised: self.supervisor.is_some(),
            refused: Refused::default(),
            log,
            last,
        };
        match (stdin, stdout) {
            (Some(stdin), Some(stdout)) => Ok((process, stdout, stdin)),
            _ => Err(io::Error::other("it has no standard input or output")),
        }
    }
}

impl Process {
    /// Why its output has ended, as far as that is known: in words that follow the server's name.
    pub(crate) async fn why_over(&mut self) -> Option<String> {
        if let Some(refused) = self.refused.get() {
            return Some(refused.to_owned());
        }
        let status = tokio::time::timeout(EXIT, self.child.wait()).await;
        let status = status.ok()?.ok()?;
        let why = match status.code() {
            // A supervisor says so, and a shell.
            Some(code) if code == i32::from(NOT_STARTED) => {
                format!("could not be started ({status})")
            }
            _ => format!("ended with {status}"),
        };
        Some(why + &self.last_words().await)
    }

    /// What it wrote last to its standard error, in words that follow what became of it.
    pub(crate) async fn last_words(&mut self) -> String {
        if let Some(log) = self.log.take_if(|_| self.child.id().is_none()) {
            // The rest is still in the pipe, which a child of it may keep open.
            _ = tokio::time::timeout(EXIT, log).await;
        }
        self.last.words()
    }

    /// Ends it once its standard input is closed: in peace, then by SIGTERM, then by SIGKILL.
    pub(crate) async fn end(mut self) {
        if tokio::time::timeout(END, self.child.wait()).await.is_err() {
            self.signal(Signal::TERM);
            // What is left is killed on drop.
            _ = tokio::time::timeout(END, self.child.wait()).await;
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // An empty group is what is wanted.
            _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        match self.group {
            // It also finds what has left the group.
            Some(leader) if self.is_supervised && self.child.id().is_some() => {
                cairn_supervise::end(leader);
            }
            _ => self.signal(Signal::KILL),
        }
    }
}

/// Standard error of a program, in the log.
struct Log {
    server: String,
    secrets: Vec<String>,
    last: LastLines,
    since: Instant,
    shown: u32,
    left_out: u64,
}

impl Log {
    fn new(server: &str, mut secrets: Vec<String>, last: LastLines) -> Self {
        secrets.retain(|secret| secret.len() >= SHORTEST_SECRET);
        // One may be a part of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self {
            server: server.to_owned(),
            secrets,
            last,
            since: Instant::now(),
            shown: 0,
            left_out: 0,
        }
    }

    async fn follow(mut self, stderr: ChildStderr) {
        let mut reader = BufReader::new(stderr);
        let mut line = Vec::new();
        let longest = self.secrets.first().map_or(0, String::len);
        loop {
            let available = match reader.fill_buf().await {
                Ok(available) if !available.is_empty() => available,
                _ => break,
            };
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            // A secret is found whole or not at all.
            let room = (MOST_LINE + longest).saturating_sub(line.len());
            line.extend_from_slice(&part[..part.len().min(room)]);
            let read = part.len() + usize::from(end.is_some());
            reader.consume(read);
            if end.is_some() {
                self.show(&line);
                line.clear();
            }
        }
        if !line.is_empty() {
            self.show(&line);
        }
        self.show_left_out();
    }

    fn show(&mut self, line: &[u8]) {
        let line = escaped(&String::from_utf8_lossy(line), &self.secrets);
        if !line.is_empty() {
            self.last.add(&line);
        }
        if self.since.elapsed() >= LINES_TIME {
            self.show_left_out();
            (self.since, self.shown) = (Instant::now(), 0);
        }
        if self.shown == MOST_LINES {
            self.left_out += 1;
            return;
        }
        self.shown += 1;
        tracing::info!(server = self.server, line, "standard error of a server");
    }

    fn show_left_out(&mut self) {
        if self.left_out > 0 {
            let lines = std::mem::take(&mut self.left_out);
            tracing::info!(
                server = self.server,
                lines,
                "standard error of a server left out"
            );
        }
    }
}

/// A line without control characters and known secrets.
fn escaped(line: &str, secrets: &[String]) -> String {
    let longest = secrets.iter().map(String::len).max().unwrap_or_default();
    let may_be_cut = line.len() >= MOST_LINE + longest;
    let mut line = line.to_owned();
    for secret in secrets {
        line = line.replace(secret.as_str(), REPLACEMENT);
    }
    // A secret that the reading cut in two is not found.
    let whole = line.len()
        - if may_be_cut {
            longest.min(line.len())
        } else {
            0
        };
    let end = line.floor_char_boundary(MOST_LINE.min(whole));
    let mut shown = String::with_capacity(end);
    for c in line[..end].trim_end().chars() {
        match c.is_control() {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_neither_secrets_nor_control_characters() {
        let secrets = ["sesame-open".to_owned()];
        let line = escaped("key sesame-open \u{1b}[2J\u{7}end\r\n", &secrets);
        assert_eq!(line, "key [secret] \\u{1b}[2J\\u{7}end");
        let token = "0123456789".repeat(50);
        let twice = format!("{token}{}{token}", "x".repeat(900));
        let read = &twice[..MOST_LINE + token.len()];
        let line = escaped(read, std::slice::from_ref(&token));
        assert!(!line.contains("0123456789"), "{line}");
    }
}
