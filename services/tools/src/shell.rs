//! `shell_exec`: commands that a model writes, confined to the workspace.
//!
//! A command runs in `sh -c`, below a supervising process that ends with it everything that it started. Standard
//! output and standard error are one stream, in the order in which they were written: it is progress while the
//! command runs, and the result at its end. The environment is a list of names, so no key of a model or a server
//! is in it unless the operator passes it on.

use crate::command::{changed, look, stopped_call};
use crate::config::ShellConfig;
use crate::confine::{Confinement, Network, Unconfined};
use crate::error::ToolError;
use crate::matchers;
use crate::progress::{Progress, ProgressStep};
use crate::service::Programs;
use crate::text;
use crate::tool::{Call, Effect, OUTPUT_LIMIT, Output, Tool, ToolSpec};
use async_trait::async_trait;
use cairn_engine::rules::{
    AROUND_SECONDS, Answer, Condition, LONGEST_SECONDS, Matcher, MatcherKind, SHELL_TOOL, Scope,
    USUAL_SECONDS, command_seconds,
};
use cairn_rpc::{BootClock, Monotonic as _};
use cairn_supervise::{DEFAULT_PATH, Head, LAST_OUTPUT, Running, Supervisor, signal_of};
use serde_json::json;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

/// Bytes of the result that are kept for what the tool says after the output.
const WORDS: usize = 16 * 1024;
/// Between two steps of progress.
const STEP: Duration = Duration::from_millis(250);
/// Most bytes of output in one step of progress: its end.
const STEP_BYTES: usize = 4096;
/// The end of the output, in which the supervising process may have left the number of a signal.
const END_BYTES: usize = 64;

/// Variables that commands get of the environment. Those of toolchains say where these are.
const PASSED: [&str; 19] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "VIRTUAL_ENV",
    "NVM_DIR",
    "VOLTA_HOME",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "SDKMAN_DIR",
];
/// The beginning of the names of further ones.
const LOCALE: &str = "LC_";

/// The tool.
#[derive(Debug)]
pub(crate) struct ShellTool {
    spec: ToolSpec,
    workspace: PathBuf,
    environment: BTreeMap<String, String>,
    supervisor: Option<Supervisor>,
    confinement: Option<Confinement>,
}

impl ShellTool {
    /// The tool over a workspace, an absolute path without links. If [`unusable`] says why it cannot be called, it
    /// must not be.
    pub(crate) fn new(config: &ShellConfig, workspace: &Path, programs: &Programs) -> Self {
        let confinement = match &programs.confinement {
            Some(Ok(confinement)) => Some(confinement.clone()),
            _ => None,
        };
        let spec = ToolSpec {
            effect: Effect::Effectful,
            time_limit: Duration::from_secs(LONGEST_SECONDS + AROUND_SECONDS),
            in_process: false,
            default: Answer::Ask,
            is_confined: confinement.is_some(),
            opens: opens(confinement.as_ref()),
            matchers: matchers(workspace),
            ..ToolSpec::new(
                SHELL_TOOL,
                description(confinement.as_ref()),
                json!({
                    "type": "object",
                    "properties": {
                        "command": {
                            "type": "string",
                            "minLength": 1,
                            "description": "The command line, for sh -c."
                        },
                        "timeout": {
                            "type": "integer",
                            "minimum": 1,
                            "maximum": LONGEST_SECONDS,
                            "default": USUAL_SECONDS,
                            "description": "Seconds after which the command is killed."
                        },
                        "cwd": {
                            "type": "string",
                            "default": ".",
                            "description": "The folder to run it in, from the workspace."
                        }
                    },
                    "required": ["command"],
                    "additionalProperties": false
                }),
            )
        };
        Self {
            spec,
            workspace: workspace.to_owned(),
            environment: environment(config, &programs.environment),
            supervisor: programs.supervisor.clone(),
            confinement,
        }
    }

    /// The folder that a command runs in: one of the workspace, without links.
    fn folder(&self, call: &Call) -> Result<PathBuf, ToolError> {
        let cwd = call.arguments.get("cwd").and_then(|it| it.as_str());
        let cwd = cwd.unwrap_or(".");
        let folder = self.workspace.join(cwd).canonicalize().map_err(|error| {
            ToolError::InvalidArguments(format!("cwd '{cwd}' cannot be opened: {error}"))
        })?;
        let problem = match (folder.starts_with(&self.workspace), folder.is_dir()) {
            (true, true) => return Ok(folder),
            (false, _) => "leads out of the workspace; give a folder below it",
            (true, false) => "is no folder",
        };
        Err(ToolError::InvalidArguments(format!(
            "cwd '{cwd}' {problem}"
        )))
    }

    fn start(&self, call: &Call, task: &Task) -> Result<(Running, pipe::Receiver), ToolError> {
        let failed = |error: io::Error| {
            ToolError::ExecutionFailed(format!("the command could not be started: {error}"))
        };
        let Some(supervisor) = &self.supervisor else {
            return Err(failed(io::Error::other("nothing supervises it")));
        };
        let (reader, writer) = io::pipe().map_err(failed)?;
        let bounds = self
            .confinement
            .as_ref()
            .map(|it| it.bounds(supervisor, &[]));
        let mut command = supervisor.command(task.time, 0, bounds.as_ref(), "sh");
        command
            .args(["-c", &task.command])
            .env_clear()
            .envs(&self.environment)
            .env("CAIRN_CALL_KEY", &call.key)
            .current_dir(&task.folder)
            .stdin(Stdio::null())
            .stdout(writer.try_clone().map_err(failed)?)
            .stderr(writer)
            .process_group(0);
        call.permit.check()?;
        let child = command.spawn().map_err(failed)?;
        // It has the other ends of the pipe.
        drop(command);
        let running = Running::new(child, true);
        let output = pipe::Receiver::from_owned_fd(reader.into()).map_err(failed)?;
        Ok((running, output))
    }

    /// The result of a command that has ended. Its status stands in the last line, as of a long result a model may
    /// see the beginning or the end.
    fn result(&self, task: &Task, ended: Ended, changed: &str) -> Result<Output, ToolError> {
        let Ended {
            status,
            mut transcript,
        } = ended;
        let signal = transcript.signal(status);
        let how = match (signal, status.code()) {
            (Some(signal), _) => format!("ended by signal {signal}"),
            (None, Some(code)) => format!("exit status {code}"),
            (None, None) => "ended without a status".to_owned(),
        };
        let mut text = transcript.into_text();
        let is_late = signal.is_some() && BootClock.now() >= task.over;
        let late = format!(
            "the command took longer than {} s and was killed; what it did stays",
            task.time.as_secs()
        );
        for line in [changed, if is_late { &late } else { "" }, &how] {
            if !line.is_empty() {
                text.push_str(if text.is_empty() { "" } else { "\n" });
                text.push_str(line);
            }
        }
        match is_late {
            true => Err(ToolError::Timeout(text)),
            false => Ok(Output::text(text)),
        }
    }
}

/// Why the tool cannot be called, if it cannot.
pub(crate) fn unusable(programs: &Programs) -> Option<String> {
    match &programs.confinement {
        Some(Err(Unconfined::Store(why))) => Some(why.clone()),
        _ if programs.supervisor.is_none() => Some("nothing supervises programs here".to_owned()),
        // A command that is not confined asks a person each time, who reads so.
        Some(Ok(_) | Err(Unconfined::System(_))) | None => None,
    }
}

/// What a command can reach, for the person who is asked about it.
fn opens(confinement: Option<&Confinement>) -> String {
    let Some(confinement) = confinement else {
        return "unconfined: it can read and change all that Cairn can".to_owned();
    };
    let network = match confinement.network() {
        Network::None => "no network".to_owned(),
        Network::Loopback => "a network of its own, without other machines".to_owned(),
        Network::Ports(ports) => {
            let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
            format!("network: TCP on the ports {}", ports.join(", "))
        }
    };
    format!("confined: it can change the workspace, and read it and toolchains; {network}")
}

fn description(confinement: Option<&Confinement>) -> String {
    let bounds = match confinement {
        None => "It runs with all rights of the user who started Cairn.".to_owned(),
        Some(confinement) => {
            let network = match confinement.network() {
                Network::None => "It has no network and can make no sockets.".to_owned(),
                Network::Loopback => "Its only network is a loopback device of its own.".to_owned(),
                Network::Ports(ports) => {
                    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
                    format!(
                        "Of the network it has TCP on these ports: {}.",
                        ports.join(", ")
                    )
                }
            };
            format!(
                "It reads the workspace, system folders and toolchains, and writes the workspace and $TMPDIR, \
                 which is removed afterwards. {network}"
            )
        }
    };
    format!(
        "Runs a command line with sh -c in the workspace, and returns its output (standard output and standard \
         error together) with its exit status in the last line. Each command is a process of its own: no folder or \
         variable is kept, and nothing runs on after it. Its standard input is empty. A long output needs no tail: its \
         beginning is returned, and read_result reads on; the status of a pipe is that of its last program. {bounds} \
         A command that takes longer than {USUAL_SECONDS} seconds needs a timeout, of at most {LONGEST_SECONDS}. A \
         person may be asked first. In one reply, a command waits for the writes before it."
    )
}

fn matchers(workspace: &Path) -> Vec<Matcher> {
    let kinds = [
        ("command", MatcherKind::Text, None),
        ("cwd", MatcherKind::Path, Some(".")),
        ("timeout", MatcherKind::Free, None),
    ];
    let matcher = |(name, kind, default): (&str, _, Option<&str>)| Matcher {
        name: name.to_owned(),
        kind,
        argument: name.to_owned(),
        default: default.map(str::to_owned),
        folder: Some(workspace.display().to_string()),
    };
    kinds.into_iter().map(matcher).collect()
}

fn environment(config: &ShellConfig, all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_passed = |name: &str| {
        PASSED.contains(&name) || name.starts_with(LOCALE) || config.env.iter().any(|it| it == name)
    };
    let passed = all.iter().filter(|(name, _)| is_passed(name));
    let mut passed: BTreeMap<String, String> = passed
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    passed
        .entry("PATH".to_owned())
        .or_insert_with(|| DEFAULT_PATH.to_owned());
    // No program draws on a screen that is not there.
    passed.insert("TERM".to_owned(), "dumb".to_owned());
    passed
}

/// One command.
struct Task {
    command: String,
    time: Duration,
    /// When it has to be over.
    over: Duration,
    folder: PathBuf,
}

/// How a command ended.
struct Ended {
    status: ExitStatus,
    transcript: Transcript,
}

#[async_trait]
impl Tool for ShellTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn links(&self, scope: &Scope) -> Vec<Condition> {
        matchers::links(&self.spec.matchers, scope)
    }

    async fn call(&self, call: &Call) -> Result<Output, ToolError> {
        let command = call.arguments.get("command").and_then(|it| it.as_str());
        let command = command.unwrap_or_default();
        if command.contains('\0') {
            let problem = "the command has a NUL character; leave it out";
            return Err(ToolError::InvalidArguments(problem.to_owned()));
        }
        let time = Duration::from_secs(command_seconds(&call.arguments.to_string()));
        let task = Task {
            command: command.to_owned(),
            time,
            over: BootClock.now() + time,
            folder: self.folder(call)?,
        };
        let before = look(self.confinement.as_ref()).await;
        let (mut running, output) = self.start(call, &task)?;
        let stopped = call.stop.cancelled();
        let ended = tokio::select! {
            ended = follow(&mut running, output, &call.progress) => ended,
            () = stopped => {
                let killed = stopped_call(SHELL_TOOL, running.kill().await);
                let changed = changed(self.confinement.as_ref(), before).await;
                return Err(match killed {
                    ToolError::Stopped(_) => ToolError::Stopped(changed),
                    unknown => unknown,
                });
            }
        };
        let ended =
            ended.map_err(|error| ToolError::Unknown(format!("the command was lost: {error}")))?;
        let changed = changed(self.confinement.as_ref(), before).await;
        self.result(&task, ended, &changed)
    }
}

/// Reads the output until the command and everything that it started have ended.
async fn follow(
    running: &mut Running,
    output: pipe::Receiver,
    progress: &Progress,
) -> io::Result<Ended> {
    let mut transcript = Transcript::new(progress.clone());
    let status = {
        let mut read = std::pin::pin!(transcript.read(output));
        let mut is_closed = false;
        let status = loop {
            tokio::select! {
                status = running.child.wait() => break status?,
                () = &mut read, if !is_closed => is_closed = true,
            }
        };
        running.has_ended();
        if !is_closed {
            _ = tokio::time::timeout(LAST_OUTPUT, read).await;
        }
        status
    };
    Ok(Ended { status, transcript })
}

/// The output of a command.
struct Transcript {
    head: Head,
    end: Vec<u8>,
    read: u64,
    /// What no step of progress has reported.
    unreported: Vec<u8>,
    reported: Duration,
    progress: Progress,
}

impl Transcript {
    fn new(progress: Progress) -> Self {
        Self {
            head: Head::new(OUTPUT_LIMIT - WORDS),
            end: Vec::new(),
            read: 0,
            unreported: Vec::new(),
            reported: BootClock.now(),
            progress,
        }
    }

    async fn read(&mut self, mut output: pipe::Receiver) {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let pause = match self.unreported.is_empty() {
                true => Duration::MAX,
                false => (self.reported + STEP).saturating_sub(BootClock.now()),
            };
            match tokio::time::timeout(pause, output.read(&mut buffer)).await {
                Ok(Ok(0) | Err(_)) => return self.report(),
                Ok(Ok(read)) => self.take(&buffer[..read]),
                Err(_) => self.report(),
            }
            if BootClock.now() >= self.reported + STEP {
                self.report();
            }
        }
    }

    fn take(&mut self, part: &[u8]) {
        self.read += part.len() as u64;
        self.head.take(part);
        for (kept, most) in [
            (&mut self.end, END_BYTES),
            (&mut self.unreported, STEP_BYTES),
        ] {
            kept.extend_from_slice(part);
            let over = kept.len().saturating_sub(most);
            kept.drain(..over);
        }
    }

    fn report(&mut self) {
        self.reported = BootClock.now();
        if self.unreported.is_empty() {
            return;
        }
        let text = std::mem::take(&mut self.unreported);
        #[expect(
            clippy::cast_precision_loss,
            reason = "it only has to grow, and is exact up to 8 PiB"
        )]
        let progress = self.read as f64;
        self.progress.report(ProgressStep {
            progress,
            total: 0.0,
            message: String::from_utf8_lossy(&text).into_owned(),
        });
    }

    /// The signal that ended the command, which is taken out of the output.
    fn signal(&mut self, status: ExitStatus) -> Option<i32> {
        let is_whole = self.read == self.head.kept.len() as u64;
        let kept = match is_whole {
            true => &mut self.head.kept,
            false => &mut self.end,
        };
        signal_of(status.code(), kept)
    }

    fn into_text(self) -> String {
        let most = OUTPUT_LIMIT - WORDS;
        let text = String::from_utf8_lossy(&self.head.kept);
        text::cut(text.trim_end().to_owned(), most)
    }
}

#[cfg(test)]
mod tests;
