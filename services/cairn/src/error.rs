//! What a command says when it cannot do what was asked.

use cairn_proto::orchestrator::RunStatus;
use cairn_rpc::text::escape;
use cairn_rpc::{ErrorKind, RpcError, STAYS_REFUSED};
use std::fmt;

/// A command that failed: what is wrong, what helps, and the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliError {
    /// What is wrong; lower case, no full stop.
    pub message: String,
    /// What to do about it; may have several lines, or none.
    pub hint: String,
    /// The exit code of the process.
    pub code: u8,
    /// The service's name for what went wrong, such as `RUN_ACTIVE`; else empty.
    pub reason: String,
}

/// Something failed.
pub const FAILURE: u8 = 1;
/// The command line or the configuration is wrong.
pub const USAGE: u8 = 2;
/// A run waits for a person.
pub const WAITING: u8 = 3;
/// Somebody pressed Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// The exit code that says how it stands with a run: the same one wherever a run is followed.
pub fn run_code(status: RunStatus) -> u8 {
    match status {
        RunStatus::Failed | RunStatus::Cancelled => FAILURE,
        RunStatus::Waiting | RunStatus::Paused => WAITING,
        RunStatus::Completed
        | RunStatus::Planning
        | RunStatus::Running
        | RunStatus::Unspecified => 0,
    }
}

impl CliError {
    /// A failure.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: String::new(),
            code: FAILURE,
            reason: String::new(),
        }
    }

    /// A mistake in the command line or in the configuration.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(message).code(USAGE)
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// With this exit code.
    #[must_use]
    pub fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// The same with the flags of a command in place of the fields that they set, as pairs of field and flag.
    #[must_use]
    pub fn naming(self, flags: &[(&str, &str)]) -> Self {
        Self {
            message: renamed(&self.message, flags),
            hint: renamed(&self.hint, flags),
            ..self
        }
    }

    /// An error with everything that led to it, on one line.
    pub fn chain(error: &dyn std::error::Error) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message.push_str(": ");
            message.push_str(&error.to_string());
            cause = error.source();
        }
        Self::new(message)
    }
}

/// The flag for the field `at_seq` of requests.
pub const AT: [(&str, &str); 1] = [("at_seq", "--at")];

/// The text with other words for some.
fn renamed(text: &str, names: &[(&str, &str)]) -> String {
    let mut renamed = String::with_capacity(text.len());
    for piece in text.split_inclusive([' ', '\n']) {
        let word = piece.trim_end_matches([' ', '\n']);
        let name = names.iter().find(|(field, _)| *field == word);
        renamed.push_str(name.map_or(word, |(_, name)| name));
        renamed.push_str(&piece[word.len()..]);
    }
    renamed
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.message.lines().enumerate() {
            let before = if index == 0 { "cairn: " } else { "\n" };
            write!(f, "{before}{}", escape(line))?;
        }
        for line in self.hint.lines() {
            write!(f, "\n  {}", escape(line))?;
        }
        Ok(())
    }
}

impl std::error::Error for CliError {}

/// What helps when the disk takes no more.
const NO_ROOM: &str = "make room where the store lies (its path: cairn check-config)\n\
    nothing is lost; then go on with: cairn resume";
/// What helps when the store's file may not grow any more.
const NO_PAGES: &str = "raise store.max_pages (where it is set: cairn check-config)\n\
    nothing is lost; then go on with: cairn resume";

impl From<RpcError> for CliError {
    fn from(error: RpcError) -> Self {
        if error.reason_name() == "LIMIT" && error.metadata("limit") == Some("disk") {
            let pages = error.metadata("allowed").filter(|pages| *pages != "0");
            let full = match pages {
                Some(pages) => Self::new(format!(
                    "the store is full: its file may have {pages} pages of 4 KiB"
                ))
                .hint(NO_PAGES),
                None => Self::new("the store is full: there is no room on its disk").hint(NO_ROOM),
            };
            return Self {
                reason: error.reason_name().to_owned(),
                ..full
            };
        }
        // Commands choose a new request_id by themselves.
        let message = error.to_string().replace(STAYS_REFUSED, "");
        if let Some(release) = release_of(&error) {
            let hint = match error.metadata("stored") {
                // Of a session that can be let go on there is an event at least.
                Some("0") => format!(
                    "nothing may be left of it: if it is listed by cairn sessions, let it go on \
                     with: cairn {release}"
                ),
                _ => format!("let it go on with: cairn {release}"),
            };
            return Self {
                reason: error.reason_name().to_owned(),
                ..Self::new(message).hint(hint)
            };
        }
        let fields: Vec<String> = error.violations().iter().map(ToString::to_string).collect();
        let fields = fields.join("\n");
        let is_reported = fields == message || message == fields.replace('\n', "; ");
        Self {
            hint: if is_reported { String::new() } else { fields },
            code: match error.kind() {
                ErrorKind::InvalidArgument => USAGE,
                _ => FAILURE,
            },
            reason: error.reason_name().to_owned(),
            message,
        }
    }
}

/// The command that lets a session be worked on again, if that it was quarantined is what is wrong.
pub fn release_of(error: &RpcError) -> Option<String> {
    let is_lost = match error.reason_name() {
        "SESSION_QUARANTINED" => error.metadata("why") == Some("writes_lost"),
        "WRITES_LOST" => true,
        // A cursor that is only wrong is another kind of error.
        "WENT_BACK" if error.kind() == ErrorKind::DataLoss => true,
        _ => return None,
    };
    let session = error.metadata("session")?;
    let accept = if is_lost { ACCEPT_LOSS } else { "" };
    Some(format!("resume {session}{accept}"))
}

/// Said to `cairn resume` where calls with side effects may be made again.
const ACCEPT_LOSS: &str = " --accept-loss";

impl From<tonic::Status> for CliError {
    fn from(status: tonic::Status) -> Self {
        RpcError::from_status(&status).into()
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        Self::chain(&error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_flag_that_the_person_gave() {
        let error = RpcError::invalid("at_seq", "is 51").allowed("0 to 50");
        let error = CliError::from(error).naming(&AT);
        assert_eq!(error.message, "--at is 51 (allowed: 0 to 50)");
        let error = CliError::new("x at_seq")
            .hint("at_seq is 1\nat_seqs stay")
            .naming(&AT);
        let said = (error.message.as_str(), error.hint.as_str());
        assert_eq!(said, ("x --at", "--at is 1\nat_seqs stay"));
    }
}
