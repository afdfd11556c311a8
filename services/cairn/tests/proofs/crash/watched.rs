//! What clients know of their runs.

use serde_json::Value;

/// An acknowledged start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Started {
    pub(crate) session: String,
    pub(crate) run: u32,
    pub(crate) seq: u64,
}

/// How a run ended for its watcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Completed,
    /// Because a call was denied; why else, the text says.
    Failed(String),
    /// Because its client said so.
    Cancelled,
    /// It is gone, or nothing happened any more.
    Otherwise(String),
}

/// Something that a client said to its run, and was answered.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    /// The name of the request.
    pub(crate) request: String,
    pub(crate) what: What,
    pub(crate) reported: Reported,
    /// When it was first sent, and when it was answered: milliseconds since 1970.
    pub(crate) asked_at: i64,
    pub(crate) reported_at: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum What {
    Pause,
    Resume,
    Cancel,
    /// This plan, as JSON.
    Apply(Value),
    Feedback,
    /// This settlement, as JSON.
    Decide(Value),
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reported {
    /// For a plan, with the event that put it into force.
    Accepted(u64),
    /// The reason.
    Refused(String),
}

/// What a client knows of one run that it asked for.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    pub(crate) request: String,
    /// Every answer to the start, which may be repeated.
    pub(crate) starts: Vec<Started>,
    /// Every event as it came, with its number and as JSON.
    pub(crate) seen: Vec<(u64, String)>,
    /// What else the client said, in order, as far as it was answered.
    pub(crate) said: Vec<Said>,
    /// Where a watch was, and how long the journal, when it was silent for too long.
    pub(crate) overdue: Vec<(u64, u64)>,
    /// Answers that nobody should ever get.
    pub(crate) odd: Vec<String>,
    pub(crate) end: End,
}

impl Watched {
    /// Nothing yet.
    pub(crate) fn new(request: &str) -> Self {
        Self {
            request: request.to_owned(),
            starts: Vec::new(),
            seen: Vec::new(),
            said: Vec::new(),
            overdue: Vec::new(),
            odd: Vec::new(),
            end: End::Completed,
        }
    }

    /// What was accepted of what the client said.
    pub(crate) fn accepted(&self) -> impl Iterator<Item = &Said> {
        let said = self.said.iter();
        said.filter(|said| matches!(said.reported, Reported::Accepted(_)))
    }

    /// The session that the first answer named.
    pub(crate) fn session(&self) -> &str {
        self.starts.first().map_or("", |start| &start.session)
    }
}
