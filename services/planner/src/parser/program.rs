//! A program as a plan parser.
//!
//! It is started for each text, without a shell, with the rights of this process and with `PATH` alone. The text is
//! its standard input. It prints a plan as files have it, so [`JsonPlanParser::strict`] reads that.
//!
//! A status other than 0 says that the text is no plan, and standard error says why. That goes back to the model, as
//! do faults of a plan that was printed. A program that prints something else, takes too long or cannot be started has
//! a fault of its own, which no model can mend.

use super::{JsonPlanParser, PlanParseError, PlanParser};
use async_trait::async_trait;
use cairn_engine::plan::PlanDraft;
use cairn_supervise::{DEFAULT_PATH, End, Running, Supervisor, signal_of, why_not_started};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// Longer than the time limit, the supervising process ends the program. It does so only if this process cannot.
const SLACK: Duration = Duration::from_secs(2);
/// Most bytes that the program may print.
const MOST_BYTES: usize = 3 * 1024 * 1024;

/// Has a program read plans.
#[derive(Debug, Clone)]
pub struct ProgramPlanParser {
    argv: Vec<String>,
    folder: PathBuf,
    time_limit: Duration,
    path: String,
    supervisor: Option<Supervisor>,
}

impl ProgramPlanParser {
    /// `argv` is the program with its arguments, and not empty. The program runs in `folder`. It is killed after
    /// `time_limit`, unless this process is killed before.
    pub fn new(argv: Vec<String>, folder: PathBuf, time_limit: Duration) -> Self {
        Self {
            argv,
            folder,
            time_limit,
            path: DEFAULT_PATH.to_owned(),
            supervisor: None,
        }
    }

    /// Looks for the program in these folders, which stand as in the variable `PATH`.
    #[must_use]
    pub fn with_path(self, path: impl Into<String>) -> Self {
        let path = path.into();
        Self { path, ..self }
    }

    /// Has a process of its own keep the time limit, so that it also holds after a kill of this process.
    #[must_use]
    pub fn supervised(self, supervisor: Supervisor) -> Self {
        let supervisor = Some(supervisor);
        Self { supervisor, ..self }
    }

    fn start(&self, input: usize) -> io::Result<Running> {
        let mut argv = self.argv.iter();
        let program = argv.next().map_or("", String::as_str);
        let mut command = match &self.supervisor {
            Some(supervisor) => {
                let time_limit = self.time_limit.saturating_add(SLACK);
                supervisor.command(time_limit, input, None, program)
            }
            None => Command::new(program),
        };
        command
            .args(argv)
            .env_clear()
            .env("PATH", &self.path)
            .current_dir(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let child = command.spawn()?;
        Ok(Running::new(child, self.supervisor.is_some()))
    }

    /// What the end of the program means.
    fn outcome(&self, end: End) -> Result<PlanDraft, PlanParseError> {
        let End {
            status,
            stdout,
            mut stderr,
        } = end;
        let mut signal = status.signal();
        if self.supervisor.is_some() {
            if let Some(why) = why_not_started(status.code(), &stderr) {
                return Err(self.failed(&format!("cannot be started: {why}")));
            }
            signal = signal.or_else(|| signal_of(status.code(), &mut stderr));
        }
        match (status.code(), signal) {
            (_, Some(signal)) => Err(self.failed(&format!("was ended by signal {signal}"))),
            (Some(0), None) if stdout.len() > MOST_BYTES => {
                Err(self.failed(&format!("printed more than {MOST_BYTES} bytes")))
            }
            (Some(0), None) => self.printed(&stdout),
            (code, None) => Err(PlanParseError::Refused {
                words: words(&stderr, code),
            }),
        }
    }

    /// The plan that the program printed.
    fn printed(&self, output: &[u8]) -> Result<PlanDraft, PlanParseError> {
        let no_plan = |error: &dyn ToString| {
            let error = error.to_string();
            self.failed(&format!("printed no plan: {error}"))
        };
        let text = std::str::from_utf8(output).map_err(|error| no_plan(&error))?;
        let draft = JsonPlanParser::strict().draft(text);
        draft.map_err(|error| match error {
            // The form is the program's, and not the model's.
            PlanParseError::BadJson { .. }
            | PlanParseError::WrongType { .. }
            | PlanParseError::UnknownField { .. } => no_plan(&error),
            error => error,
        })
    }

    fn failed(&self, problem: &str) -> PlanParseError {
        PlanParseError::ParserFailed {
            program: self.argv.first().cloned().unwrap_or_default(),
            problem: problem.to_owned(),
        }
    }
}

#[async_trait]
impl PlanParser for ProgramPlanParser {
    async fn parse(&self, text: &str) -> Result<PlanDraft, PlanParseError> {
        let started = self.start(text.len());
        let mut running =
            started.map_err(|error| self.failed(&format!("cannot be started: {error}")))?;
        let finished = running.finish(text.as_bytes().to_vec(), MOST_BYTES);
        match tokio::time::timeout(self.time_limit, finished).await {
            Ok(Ok(end)) => self.outcome(end),
            Ok(Err(error)) => Err(self.failed(&format!("was lost: {error}"))),
            // It is killed when `running` is dropped.
            Err(_) => Err(self.failed(&format!("did not end within {:?}", self.time_limit))),
        }
    }
}

/// What the program says of the text: the end of its standard error.
fn words(stderr: &[u8], code: Option<i32>) -> String {
    let text = String::from_utf8_lossy(stderr);
    // What is kept may begin inside of a character.
    let text = text.trim_start_matches(char::REPLACEMENT_CHARACTER).trim();
    match (text, code) {
        ("", Some(code)) => format!("it gave no reason (exit status {code})"),
        ("", None) => "it gave no reason".to_owned(),
        (words, _) => words.to_owned(),
    }
}
