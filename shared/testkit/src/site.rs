//! A folder in which `cairn` is at home.

use crate::Journal;
use crate::ledger::{Ledger, TOOL_SCRIPT};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tempfile::TempDir;

/// Leases and calls with effects are short, so that no test waits long for their ends. A pure call, which
/// tests hold, may take 40 s. Neither is confined: a ledger is outside of Cairn, and some tests keep the store in the
/// workspace, beside which no program is.
const SETTINGS: &str = r#"
[session]
lease = "1s"

[[tools.commands]]
name = "record"
description = "Writes a line into the ledger."
argv = ["sh", "record.sh"]
confine = "none"
effect = "effectful"
time_limit_ms = 2000
env = ["LEDGER"]
parameters = { type = "object", properties = { what = { type = "string" } }, required = ["what"], additionalProperties = false }

[[tools.commands]]
name = "look"
description = "Looks around, and writes down that it did."
argv = ["sh", "-c", "LEDGER=$LOOKS VERB=looked . ./record.sh"]
confine = "none"
effect = "pure"
time_limit_ms = 40000
env = ["LOOKS"]
parameters = { type = "object", properties = { what = { type = "string" } }, required = ["what"], additionalProperties = false }
"#;

/// The token of all servers of all sites, so that clients in a test's own process have it, too. A
/// command without the variable `CAIRN_TOKEN` makes and finds tokens by their ports.
pub const TOKEN: &str = "token-of-all-sites";

/// A folder with files and settings, and a user's state folder with its store; commands run in the first and see
/// nothing else.
#[derive(Debug)]
pub struct Site {
    folder: TempDir,
    state: TempDir,
    program: PathBuf,
    /// Whether commands name the settings file, as its operator does.
    names_settings: bool,
}

/// How a command ended and what it printed.
#[derive(Debug)]
pub struct Output {
    /// The exit code; none after a signal.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Site {
    /// A new folder with some text files in `docs`, for the program at `program`.
    pub fn new(program: impl AsRef<Path>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let site = Self {
            folder,
            state: tempfile::tempdir().expect("a temporary folder"),
            program: program.as_ref().to_owned(),
            names_settings: true,
        };
        site.write("cairn.toml", SETTINGS);
        site.write("record.sh", TOOL_SCRIPT);
        site.write("docs/one.md", "# One\nRedis is a store.\nNothing else.\n");
        site.write(
            "docs/two.md",
            "# Two\nSQLite is a store.\nRedis is another.\n",
        );
        site
    }

    /// The same folder as if it had come from others: its settings file is found, and not named.
    #[must_use]
    pub fn of_others(mut self) -> Self {
        self.names_settings = false;
        self
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The user's state folder, beside the site: `XDG_STATE_HOME` of all commands.
    pub fn state(&self) -> &Path {
        self.state.path()
    }

    /// Where commands in this folder have their store, unless they are told of another one.
    pub fn store(&self) -> PathBuf {
        self.store_of("")
    }

    /// Where commands that work in a folder below this one have their store.
    pub fn store_of(&self, folder: &str) -> PathBuf {
        let folder = self.path().join(folder).canonicalize().expect("a folder");
        let name = folder.file_name().expect("a name").to_string_lossy();
        let name = name.trim_start_matches('.').to_ascii_lowercase();
        let mut digest = String::new();
        for byte in &Sha256::digest(folder.as_os_str().as_bytes())[..6] {
            digest.push_str(&format!("{byte:02x}"));
        }
        let place = self.state().join("cairn").join(format!("{name}-{digest}"));
        place.join("cairn.db")
    }

    /// A file beside the store, such as `cairn.db.workspace`.
    pub fn beside_store(&self, name: &str) -> PathBuf {
        self.store().with_file_name(name)
    }

    /// The socket of the process that holds the store.
    pub fn socket(&self) -> PathBuf {
        self.beside_store("cairn.sock")
    }

    /// Whether a folder for a store was made, of this folder or of any other one.
    pub fn has_store(&self) -> bool {
        let places = fs::read_dir(self.state().join("cairn"));
        let mut places = places.into_iter().flatten().filter_map(Result::ok);
        places.any(|place| place.path().is_dir())
    }

    /// Writes a file, with its folders.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a file in a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// Adds to a file.
    pub fn append(&self, name: &str, text: &str) {
        let before = self.read(name).unwrap_or_default();
        self.write(name, &(before + text));
    }

    /// Reads a file.
    pub fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path().join(name)).ok()
    }

    /// Waits for programs that tools started here and that nobody waits for any more: until then
    /// the ledger may still change. Every `cairn` that was started here has to have ended.
    pub fn wait_for_programs(&self) {
        crate::programs::wait_for_all_in(self.path());
    }

    /// The same for programs that work in a folder below this one.
    pub fn wait_for_programs_in(&self, folder: &str) {
        crate::programs::wait_for_all_in(&self.path().join(folder));
    }

    /// The ledger of the tool `record`.
    pub fn ledger(&self) -> Ledger {
        Ledger::at(self.path().join("ledger"))
    }

    /// The ledger of the tool `look`, which is pure: it may be called again after a crash.
    pub fn looks(&self) -> Ledger {
        Ledger::at(self.path().join("looks"))
    }

    /// A command that has not begun. Nothing of this process's environment reaches it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.path())
            .env("XDG_STATE_HOME", self.state())
            .env("LEDGER", self.path().join("ledger"))
            .env("LOOKS", self.path().join("looks"))
            .env("CAIRN_TOKEN", TOKEN)
            // The usual port is one for all tests.
            .env("CAIRN_TELEMETRY__METRICS", "off")
            .stdin(Stdio::null());
        if self.names_settings && self.path().join("cairn.toml").exists() {
            command.env("CAIRN_CONFIG", "cairn.toml");
        }
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.run_with(arguments, &[])
    }

    /// Runs a command to its end, with more variables.
    pub fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = self.command(arguments);
        command.envs(variables.iter().copied());
        let done = command.output().expect("the program can be started");
        Output {
            code: done.status.code(),
            signal: done.status.signal(),
            out: String::from_utf8_lossy(&done.stdout).into_owned(),
            err: String::from_utf8_lossy(&done.stderr).into_owned(),
        }
    }

    /// Starts a command, waits until it has printed a line, and leaves it running.
    ///
    /// Everything else that it prints must fit into a pipe.
    pub fn start(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Running {
        let mut command = self.command(arguments);
        command.envs(variables.iter().copied());
        // Whoever looks for the cause of a failure keeps the folder and reads these.
        let log = format!(
            "{}.log",
            arguments.get(1).unwrap_or(&"start").trim_start_matches('-')
        );
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path().join(log));
        let log = log.map_or_else(|_| Stdio::null(), Stdio::from);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the program can be started");
        let mut out = BufReader::new(child.stdout.take().expect("its output"));
        let mut first_line = String::new();
        out.read_line(&mut first_line).expect("a line");
        Running {
            child,
            first_line,
            _out: out,
        }
    }

    /// Starts a command and does not wait for it; what it logs is added to the file `log`. On
    /// Linux it ends with the thread that calls this.
    pub fn begin(&self, arguments: &[&str], variables: &[(&str, &str)], log: &str) -> Starting {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path().join(log));
        let mut child = tied(&self.command(arguments))
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(log.expect("a log"))
            .spawn()
            .expect("the program can be started");
        let out = child.stdout.take().expect("its output");
        let (tell, reported) = channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(out).lines().map_while(Result::ok);
            // Nobody may want to know.
            let _ = lines.next().map(|line| tell.send(line));
            // It can go on printing.
            lines.for_each(drop);
        });
        Starting {
            child,
            reported,
            first_line: None,
        }
    }

    /// The last lines of a file; empty if there is none.
    pub fn tail(&self, name: &str, lines: usize) -> String {
        let text = self.read(name).unwrap_or_default();
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// The journal of a session, as `cairn export` gives it.
    pub fn journal(&self, session: &str) -> Journal {
        let output = self.run(&["export", session]);
        assert_eq!(output.code, Some(0), "export failed: {output:?}");
        Journal::read(&output.out)
    }

    /// The ids of all sessions.
    pub fn sessions(&self) -> Vec<String> {
        let output = self.run(&["sessions", "--json"]);
        let lines = output.out.lines().map(|line| {
            let entry: Value = serde_json::from_str(line).expect("a line of JSON");
            entry["id"].as_str().expect("an id").to_owned()
        });
        lines.collect()
    }
}

/// The same command, to be killed by the system when the thread that starts it ends: it must not
/// outlive a test that is killed.
#[cfg(target_os = "linux")]
fn tied(command: &Command) -> Command {
    let mut tied = Command::new("setpriv");
    tied.args(["--pdeathsig", "KILL"])
        .arg(command.get_program());
    alike(command, tied)
}

/// Another command with the arguments, the environment and the folder of one.
fn alike(command: &Command, mut other: Command) -> Command {
    other
        .args(command.get_args())
        .env_clear()
        .envs(command.get_envs().filter_map(|(n, v)| Some((n, v?))))
        .stdin(Stdio::null());
    if let Some(folder) = command.get_current_dir() {
        other.current_dir(folder);
    }
    other
}

#[cfg(not(target_os = "linux"))]
fn tied(command: &Command) -> Command {
    alike(command, Command::new(command.get_program()))
}

/// A process that may not have printed anything yet. It is killed when it is dropped.
#[derive(Debug)]
pub struct Starting {
    child: Child,
    reported: Receiver<String>,
    first_line: Option<String>,
}

impl Starting {
    /// The first line that it printed, waited for at most so long.
    pub fn first_line(&mut self, patience: Duration) -> Option<&str> {
        if self.first_line.is_none() {
            self.first_line = self.reported.recv_timeout(patience).ok();
        }
        self.first_line.as_deref()
    }

    /// Waits until it has ended, and tells how.
    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().expect("its end")
    }

    /// How it ended, if it has.
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("its state")
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that is killed when it is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// The first line that it printed.
    pub first_line: String,
    /// Kept open, so that it can go on printing.
    _out: BufReader<ChildStdout>,
}

impl Running {
    /// Sends it an interrupt, as Ctrl-C does.
    pub fn interrupt(&self) {
        self.signal("-INT");
    }

    /// Sends it SIGTERM, as a supervisor that replaces it does.
    pub fn terminate(&self) {
        self.signal("-TERM");
    }

    fn signal(&self, signal: &str) {
        let mut kill = Command::new("kill");
        let sent = kill.args([signal, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill can be started").success());
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended yet.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_none()
    }

    /// Kills it, as `kill -9` does, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("its end");
    }

    /// Waits for its end and tells its exit code.
    pub fn wait_for_code(&mut self) -> Option<i32> {
        self.child.wait().expect("its end").code()
    }

    /// Waits for its end and tells the signal that ended it.
    pub fn wait_for_signal(&mut self) -> Option<i32> {
        self.child.wait().expect("its end").signal()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
