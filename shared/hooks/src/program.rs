//! A program as a hook.
//!
//! It is started for each question, without a shell, in the workspace, with the rights of this process and with the
//! listed variables alone. The question is a JSON object on standard input. The answer is the exit status, and what
//! the program writes; see [`json`] and [`answer`].

mod answer;
mod json;
mod plan;

use crate::{Asked, Hook, HookError};
use async_trait::async_trait;
use cairn_engine::hooks::{MAX_ANSWER, Payload, Verdict};
use cairn_supervise::{DEFAULT_PATH, End, Running, Supervisor, signal_of, why_not_started};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// The status by which a program blocks.
const BLOCKS: i32 = 2;
/// Longer than the timeout, the supervising process ends the program. It does so only if this process cannot.
const SLACK: Duration = Duration::from_secs(2);
/// Follows the cause where a supervising process says why it did not start a program.
const ITS_PROGRAM: &str = "; its program is '";
/// Most characters of the standard error of a program that fails.
const MOST_SHOWN: usize = 500;

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramConfig {
    /// The program and its arguments. Not empty.
    pub argv: Vec<String>,
    /// Names of the variables of the environment that the program gets, besides `PATH`.
    pub env: Vec<String>,
}

/// A program that answers questions.
pub(crate) struct Program {
    argv: Vec<String>,
    environment: BTreeMap<String, String>,
    workspace: PathBuf,
    supervisor: Option<Supervisor>,
    timeout: Duration,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment may hold secrets.
        let mut shown = f.debug_struct("Program");
        shown.field("argv", &self.argv).finish_non_exhaustive()
    }
}

impl Program {
    /// `environment` is that of this process.
    pub(crate) fn new(
        config: &ProgramConfig,
        environment: &BTreeMap<String, String>,
        workspace: PathBuf,
        supervisor: Option<Supervisor>,
        timeout: Duration,
    ) -> Self {
        let named = config.env.iter();
        let passed = named.filter_map(|name| environment.get_key_value(name));
        let mut passed: BTreeMap<String, String> = passed
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let path = environment.get("PATH").map_or(DEFAULT_PATH, String::as_str);
        passed.insert("PATH".to_owned(), path.to_owned());
        Self {
            argv: config.argv.clone(),
            environment: passed,
            workspace,
            supervisor,
            timeout,
        }
    }

    fn start(&self, asked: &Asked, input: usize) -> io::Result<Running> {
        let mut argv = self.argv.iter();
        let program = argv.next().map_or("", String::as_str);
        let mut command = match &self.supervisor {
            Some(supervisor) => supervisor.command(self.timeout + SLACK, input, None, program),
            None => Command::new(program),
        };
        command
            .args(argv)
            .env_clear()
            .envs(&self.environment)
            .env("CAIRN_HOOK_KEY", &asked.key)
            .envs(asked.trace.map(|trace| ("TRACEPARENT", trace.to_string())))
            .current_dir(&self.workspace)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let child = command.spawn()?;
        Ok(Running::new(child, self.supervisor.is_some()))
    }

    /// A program that is not there, or may not be run, will not be there at the next try either. Anything else may pass,
    /// such as too many processes.
    fn not_started(&self, why: &str) -> HookError {
        let cause = why.split(ITS_PROGRAM).next().unwrap_or(why);
        let program = self.argv.first().map_or("", String::as_str);
        let workspace = self.workspace.display();
        let why = format!("its program '{program}' cannot be started in {workspace}: {cause}");
        match os_error(cause).map(|error| error.kind()) {
            Some(
                io::ErrorKind::NotFound
                | io::ErrorKind::PermissionDenied
                | io::ErrorKind::NotADirectory,
            ) => HookError::Wrong(why),
            _ => HookError::Unreachable(why),
        }
    }

    /// What the end of the program means.
    fn answer(&self, asked: &Asked, end: End) -> Result<Verdict, HookError> {
        let End {
            status,
            stdout,
            mut stderr,
        } = end;
        let passed_on = match self.supervisor {
            Some(_) => signal_of(status.code(), &mut stderr),
            None => None,
        };
        if self.supervisor.is_some()
            && let Some(why) = why_not_started(status.code(), &stderr)
        {
            return Err(self.not_started(&why));
        }
        let error = String::from_utf8_lossy(&stderr);
        let how = match (status.code(), status.signal().or(passed_on)) {
            (_, Some(signal)) => format!("signal {signal}"),
            (Some(0), None) if stdout.len() > MAX_ANSWER => {
                let why = format!("its output has more than {MAX_ANSWER} bytes");
                return Err(HookError::Wrong(why));
            }
            (Some(0), None) => {
                let question = &asked.question;
                let result = match &question.payload {
                    Payload::Result { output, .. } => Some(output.as_str()),
                    _ => None,
                };
                let verdict = answer::read(&stdout, question.gate.point, result);
                return verdict.map_err(HookError::Wrong);
            }
            (Some(BLOCKS), None) => return Ok(Verdict::Block(answer::reason(&error))),
            (Some(code), None) => format!("exit status {code}"),
            (None, None) => "no status".to_owned(),
        };
        let error: String = error.trim().chars().take(MOST_SHOWN).collect();
        let error = match error.is_empty() {
            true => error,
            false => format!(": {error}"),
        };
        Err(HookError::Wrong(format!("it ended with {how}{error}")))
    }
}

#[async_trait]
impl Hook for Program {
    async fn ask(&self, asked: &Asked) -> Result<Verdict, HookError> {
        let input = json::input(asked, &self.workspace);
        let started = self.start(asked, input.len());
        let mut running = started.map_err(|error| self.not_started(&error.to_string()))?;
        // If the time is over first, this is dropped, and the program is killed.
        let end = running.finish(input, MAX_ANSWER).await;
        let end = end.map_err(|error| HookError::Wrong(format!("it was lost: {error}")))?;
        self.answer(asked, end)
    }
}

/// The error of the system that a text of [`io::Error`] names: a supervising process passes on the text alone.
fn os_error(text: &str) -> Option<io::Error> {
    let (_, code) = text.rsplit_once("(os error ")?;
    let (code, _) = code.split_once(')')?;
    code.parse().ok().map(io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_the_system_is_found_in_its_text() {
        for code in [2, 13] {
            let error = io::Error::from_raw_os_error(code);
            let found = os_error(&error.to_string()).unwrap();
            assert_eq!(found.raw_os_error(), Some(code));
        }
        assert!(os_error("too late").is_none());
    }
}
