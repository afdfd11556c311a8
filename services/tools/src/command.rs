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
use crate::matchers;
use crate::service::Programs;
use crate::text;
use crate::tool::{Call, Output, PROGRAM, Tool, ToolSpec};
use async_trait::async_trait;
use cairn_engine::rules::{Condition, Scope};
use cairn_rpc::{BootClock, Monotonic as _};
use cairn_supervise::{DEFAULT_PATH, End, Running, Supervisor, signal_of};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

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
            Some(_) => signal_of(status.code(), &mut stderr),
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
            () = stopped => return Err(stopped_call(&self.spec.name, running.kill().await)),
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

/// What a call ends with whose program was stopped. `is_over` says whether every process of it has ended.
pub(crate) fn stopped_call(name: &str, is_over: bool) -> ToolError {
    match is_over {
        true => ToolError::Stopped(String::new()),
        false => ToolError::Unknown(format!(
            "tool '{name}' was stopped, and a process of it may still run, so what it did is not known"
        )),
    }
}
