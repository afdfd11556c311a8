//! Tools that are programs, from the configuration alone.
//!
//! The program is started from its argument list, never through a shell; nothing that a model says
//! is part of the list. Arguments come as JSON on standard input, standard output is the result. It
//! runs in the workspace, with no environment but what is listed, and leads a process group of its
//! own, which is killed as a whole: by the service, or by the process that supervises it when the
//! service has ended (see [`Supervisor`]). It is confined to the workspace (see [`crate::confine`]), unless the
//! operator lets it run with the rights of the tools service. In both cases it reads files that file tools do not
//! show.

use crate::config::CommandConfig;
use crate::confine::{Confine, Confinement, Snapshot};
use crate::error::ToolError;
use crate::group;
use crate::matchers;
use crate::service::Programs;
use crate::supervisor::{self, Supervisor};
use crate::text;
use crate::tool::{Call, Output, PROGRAM, Tool, ToolSpec};
use async_trait::async_trait;
use cairn_engine::rules::{Condition, Scope};
use cairn_rpc::{BootClock, Monotonic as _};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;

/// Where programs are looked for if the process itself has no `PATH`.
pub(crate) const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Bytes of standard error that an error shows, from its end.
const ERROR_TAIL: usize = 2048;
/// How long output may still come after the program and its group have ended: something that left
/// the group may hold the pipe.
pub(crate) const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// A program as a tool.
#[derive(Debug)]
pub(crate) struct CommandTool {
    spec: ToolSpec,
    argv: Vec<String>,
    environment: BTreeMap<String, String>,
    workspace: PathBuf,
    supervisor: Option<Supervisor>,
    confinement: Option<Confinement>,
}

impl CommandTool {
    /// The program of `config`, run in `workspace`. Of the environment it gets `PATH` and what
    /// `config` names. If it is to be confined and cannot be, the tool must not be called: [`unusable`] says why.
    pub(crate) fn new(config: CommandConfig, workspace: &Path, programs: &Programs) -> Self {
        let environment = &programs.environment;
        let mut passed: BTreeMap<String, String> = config
            .env
            .iter()
            .filter_map(|name| environment.get_key_value(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let path = environment.get("PATH").map_or(DEFAULT_PATH, String::as_str);
        passed.insert("PATH".to_owned(), path.to_owned());
        let folder = workspace.canonicalize();
        let folder = folder.unwrap_or_else(|_| workspace.to_owned());
        let spec = ToolSpec {
            effect: config.effect,
            time_limit: Duration::from_millis(config.time_limit_ms),
            output_limit: config.output_bytes,
            in_process: false,
            source: PROGRAM.to_owned(),
            matchers: matchers::matchers(&config.parameters, Some(&folder), &BTreeMap::new()),
            is_confined: config.confine == Confine::Workspace,
            ..ToolSpec::new(config.name, config.description, config.parameters)
        };
        Self {
            spec,
            argv: config.argv,
            environment: passed,
            workspace: workspace.to_owned(),
            supervisor: programs.supervisor.clone(),
            confinement: match config.confine {
                Confine::Workspace => programs.confined().ok().cloned(),
                Confine::None => None,
            },
        }
    }

    fn start(&self, call: &Call, input: usize) -> Result<Running, ToolError> {
        let mut argv = self.argv.iter();
        let program = argv.next().map_or("", String::as_str);
        let mut command = match &self.supervisor {
            Some(supervisor) => {
                let bounds = self
                    .confinement
                    .as_ref()
                    .map(|it| it.bounds(supervisor, &[]));
                supervisor.command(self.spec.time_limit, input, bounds.as_ref(), program)
            }
            None => tokio::process::Command::new(program),
        };
        command
            .args(argv)
            .env_clear()
            .envs(&self.environment)
            .env("CAIRN_CALL_KEY", &call.key)
            .current_dir(&self.workspace)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        call.permit.check()?;
        let child = command.spawn().map_err(|error| {
            ToolError::ExecutionFailed(format!(
                "tool '{}' could not be started: {error}; its program is '{program}'",
                self.spec.name
            ))
        })?;
        Ok(Running::new(child, self.supervisor.is_some()))
    }

    /// A program may say by its status what it found, as a linter does, so its output counts, too.
    fn failed(&self, end: End) -> ToolError {
        let End {
            status,
            stdout,
            mut stderr,
        } = end;
        let passed_on = match self.supervisor {
            Some(_) => supervisor::signal_of(status.code(), &mut stderr),
            None => None,
        };
        let how = match (status.code(), status.signal().or(passed_on)) {
            (_, Some(signal)) => format!("signal {signal}"),
            (Some(code), None) => format!("exit status {code}"),
            (None, None) => "no status".to_owned(),
        };
        let mut message = format!("tool '{}' failed with {how}", self.spec.name);
        let output = String::from_utf8_lossy(&stdout);
        let output = text::cut(output.trim_end().to_owned(), self.spec.output_limit);
        let said = String::from_utf8_lossy(&stderr);
        let parts = [
            ("its standard output", output.as_str()),
            ("the end of its standard error", said.trim()),
        ];
        let parts = parts.into_iter().filter(|(_, text)| !text.is_empty());
        let parts: String = parts
            .map(|(title, text)| format!("\n{title}:\n{text}"))
            .collect();
        if !parts.is_empty() {
            // Of a long result, a model may see the beginning or the end.
            message.push_str(&format!("{parts}\n{how}"));
        }
        ToolError::ExecutionFailed(message)
    }
}

#[async_trait]
impl Tool for CommandTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn links(&self, scope: &Scope) -> Vec<Condition> {
        matchers::links(&self.spec.matchers, scope)
    }

    async fn call(&self, call: &Call) -> Result<Output, ToolError> {
        let before = look(self.confinement.as_ref()).await;
        let over = BootClock.now() + self.spec.time_limit;
        let result = self.run(call).await;
        let changed = changed(self.confinement.as_ref(), before).await;
        let noted = |text: String| match changed.is_empty() {
            true => text,
            false => format!("{}\n{changed}", text.trim_end()),
        };
        match result {
            Ok(text) => Ok(Output::text(noted(text))),
            Err(ToolError::Stopped(_)) => Err(ToolError::Stopped(changed)),
            // Its supervisor has seen to the limit.
            Err(ToolError::ExecutionFailed(_)) if BootClock.now() >= over => {
                Err(ToolError::Stopped(changed))
            }
            Err(error) => Err(error.map_message(noted)),
        }
    }
}

/// How the files are that are compared after a program. None of one that is not confined: it could change others.
pub(crate) async fn look(confinement: Option<&Confinement>) -> Option<Snapshot> {
    let guarded = confinement?.guarded().clone();
    let looked = tokio::task::spawn_blocking(move || guarded.look()).await;
    looked.ok()
}

/// What a program changed of these since `before`, in words; empty if it changed nothing.
pub(crate) async fn changed(confinement: Option<&Confinement>, before: Option<Snapshot>) -> String {
    let (Some(confinement), Some(before)) = (confinement, before) else {
        return String::new();
    };
    let guarded = confinement.guarded().clone();
    let compared = tokio::task::spawn_blocking(move || guarded.changed(&before)).await;
    compared.ok().flatten().unwrap_or_default()
}

/// Why a program cannot be called, if it cannot.
pub(crate) fn unusable(config: &CommandConfig, programs: &Programs) -> Option<String> {
    match config.confine {
        Confine::None => None,
        Confine::Workspace => programs.confined().err().map(|why| {
            format!("{why}; or set confine = \"none\" for it, and it runs with all your rights")
        }),
    }
}

impl CommandTool {
    async fn run(&self, call: &Call) -> Result<String, ToolError> {
        let input = call.arguments.to_string();
        let mut running = self.start(call, input.len())?;
        let stopped = call.stop.cancelled();
        let end = tokio::select! {
            end = running.finish(input.into_bytes(), self.spec.output_limit) => end,
            () = stopped => return Err(running.kill(&self.spec.name).await),
        };
        let end = end.map_err(|error| {
            ToolError::ExecutionFailed(format!("tool '{}' was lost: {error}", self.spec.name))
        })?;
        if end.status.success() {
            // It may be large, and is copied only if it is no text.
            let text = String::from_utf8(end.stdout);
            let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Ok(text.unwrap_or_else(|error| lossy(error.as_bytes())))
        } else {
            Err(self.failed(end))
        }
    }
}

/// How a program ended.
struct End {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// A program that runs; its process group is killed at the latest when this is dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    /// The program, which leads its group, or the process that supervises it.
    id: Option<Pid>,
    is_supervised: bool,
    life: Option<Life>,
}

/// What has to be ended.
enum Life {
    /// The program and whatever it has started.
    Group(Pid),
    /// Who ends these.
    Supervisor(Pid),
}

impl Running {
    pub(crate) fn new(child: Child, is_supervised: bool) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let id = id.and_then(Pid::from_raw);
        let life = match is_supervised {
            true => Life::Supervisor,
            false => Life::Group,
        };
        Self {
            life: id.map(life),
            id,
            is_supervised,
            child,
        }
    }

    /// Feeds and drains the program until it ends. What it prints beyond the limits is read and
    /// thrown away, so that it never blocks.
    async fn finish(&mut self, input: Vec<u8>, most: usize) -> std::io::Result<End> {
        let stdin = self.child.stdin.take();
        let feed = async move {
            if let Some(mut stdin) = stdin {
                // A program need not read its arguments.
                _ = stdin.write_all(&input).await;
            }
        };
        let (mut head, mut tail) = (Head::new(most), Tail::default());
        let stdout = drain(self.child.stdout.take(), |part| head.take(part));
        let stderr = drain(self.child.stderr.take(), |part| tail.take(part));
        let status = {
            let mut streams = std::pin::pin!(async { tokio::join!(feed, stdout, stderr) });
            let mut closed = false;
            let status = loop {
                tokio::select! {
                    status = self.child.wait() => break status?,
                    _ = &mut streams, if !closed => closed = true,
                }
            };
            // The program is over, and with it whatever it left running in its group.
            match self.life.take() {
                Some(Life::Group(group)) => end_group(group),
                // It has ended, and has seen to that.
                Some(Life::Supervisor(_)) | None => {}
            }
            if !closed {
                _ = tokio::time::timeout(LAST_OUTPUT, streams).await;
            }
            status
        };
        Ok(End {
            status,
            stdout: head.kept,
            stderr: tail.kept,
        })
    }

    /// The program has ended, and with it what its supervising process saw to.
    pub(crate) fn has_ended(&mut self) {
        self.life = None;
    }

    /// Kills the program and its children, and waits until they are gone.
    pub(crate) async fn kill(&mut self, name: &str) -> ToolError {
        end(&mut self.life);
        let status = self.child.wait().await;
        let is_over = match (self.id, status) {
            // A supervising process ends by itself only after its program's group.
            (Some(_), Ok(status)) if self.is_supervised => {
                // The signal itself ends one that has not started a program yet.
                status.code().is_some() || status.signal() == Some(Signal::USR1.as_raw())
            }
            (Some(group), Ok(_)) => group::has_ended(group).await,
            _ => false,
        };
        match is_over {
            true => ToolError::Stopped(String::new()),
            false => ToolError::Unknown(format!(
                "tool '{name}' was stopped, and a process of it may still run, so what it did is not known"
            )),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.life);
    }
}

/// Ends a program, once.
fn end(life: &mut Option<Life>) {
    match life.take() {
        Some(Life::Group(group)) => end_group(group),
        Some(Life::Supervisor(supervising)) => supervisor::end(supervising),
        None => {}
    }
}

/// Kills a process group. Right after its leader was waited for, the number could belong to others only
/// if the system had gone through all its numbers in that moment.
fn end_group(group: Pid) {
    // An empty group is what is wanted.
    _ = kill_process_group(group, Signal::KILL);
}

async fn drain(stream: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(&[u8])) {
    let Some(mut stream) = stream else {
        return;
    };
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read) = stream.read(&mut buffer).await {
        if read == 0 {
            return;
        }
        take(&buffer[..read]);
    }
}

/// The first bytes of a stream.
pub(crate) struct Head {
    pub(crate) kept: Vec<u8>,
    most: usize,
}

impl Head {
    /// One byte more than a result may have, so that it is seen to be too long.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            kept: Vec::new(),
            most: most.saturating_add(1),
        }
    }

    pub(crate) fn take(&mut self, part: &[u8]) {
        let room = self.most - self.kept.len();
        self.kept.extend_from_slice(&part[..part.len().min(room)]);
    }
}

/// The last bytes of a stream.
#[derive(Default)]
struct Tail {
    kept: Vec<u8>,
}

impl Tail {
    fn take(&mut self, part: &[u8]) {
        self.kept.extend_from_slice(part);
        let over = self.kept.len().saturating_sub(ERROR_TAIL);
        self.kept.drain(..over);
    }
}
