//! The one error of every RPC here: a kind from a short list, a stable reason, and details.
//!
//! A service turns its own errors into an [`RpcError`], and `?` turns that into a
//! [`tonic::Status`] with the standard details of google.rpc (`ErrorInfo` in the domain `cairn`,
//! `BadRequest`, `RetryInfo`). A client gets the same error back with [`RpcError::from_status`].
//!
//! A status travels in HTTP headers, so everything in it is bounded, and text from elsewhere is
//! escaped. What caused an internal error is logged where it happened and never sent.

mod kind;
mod wire;

pub use kind::ErrorKind;
pub(crate) use wire::unlogged;
pub use wire::{DOMAIN, MAX_STATUS_BYTES};

use crate::text::{clip, escape};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

const MAX_MESSAGE: usize = 1024;
const MAX_FIELD: usize = 128;
const MAX_PROBLEM: usize = 256;
const MAX_REASON: usize = 64;
const MAX_VIOLATIONS: usize = 16;
const MAX_METADATA: usize = 8;

/// Ends the message about a request that is refused for now: the refusal is stored under its
/// request_id, and holds also when its reason has passed.
pub const STAYS_REFUSED: &str = "; this request stays refused, so ask again with a new request_id";

/// One field of a request, what is wrong with it, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldViolation {
    /// Path of the field in the request: `plan.steps[3].tool`.
    pub field: String,
    /// What is wrong; reads on from the field: "is empty".
    pub problem: String,
    /// What would be accepted: "1 to 63 characters"; may be empty.
    pub allowed: String,
}

/// An error as it is sent to a client, or was received from a server.
///
/// Its texts are lower case without a full stop, say what failed and what would be right, and
/// never hold a secret.
#[derive(Debug, Clone)]
pub struct RpcError(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    kind: ErrorKind,
    reason: Cow<'static, str>,
    message: String,
    violations: Vec<FieldViolation>,
    retry_after: Option<Duration>,
    metadata: BTreeMap<String, String>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl RpcError {
    /// An error of `kind` with a message for people and the kind's general reason.
    pub fn new(kind: ErrorKind, message: impl AsRef<str>) -> Self {
        Self(Box::new(Inner {
            kind,
            reason: Cow::Borrowed(kind.reason()),
            message: clip(message.as_ref(), MAX_MESSAGE),
            violations: Vec::new(),
            retry_after: None,
            metadata: BTreeMap::new(),
            source: None,
        }))
    }

    /// A field is wrong. `problem` reads on from the field's name: "is empty".
    pub fn invalid(field: impl AsRef<str>, problem: impl AsRef<str>) -> Self {
        Self::new(ErrorKind::InvalidArgument, "").and_invalid(field, problem)
    }

    /// A required field is not there.
    pub fn missing(field: impl AsRef<str>) -> Self {
        Self::invalid(field, "is missing").reason("FIELD_MISSING")
    }

    /// Nothing of this sort has this id: `not_found("session", id)`.
    pub fn not_found(what: &str, id: impl AsRef<str>) -> Self {
        let id = clip(id.as_ref(), MAX_FIELD);
        Self::new(
            ErrorKind::NotFound,
            format!("{what} \"{id}\" does not exist"),
        )
        .meta("resource", what)
        .meta("id", id)
    }

    /// Something of this sort with this id is already there.
    pub fn already_exists(what: &str, id: impl AsRef<str>) -> Self {
        let id = clip(id.as_ref(), MAX_FIELD);
        Self::new(
            ErrorKind::AlreadyExists,
            format!("{what} \"{id}\" already exists"),
        )
        .meta("resource", what)
        .meta("id", id)
    }

    /// The state of things does not admit the call; repeating it as it is will not help.
    pub fn precondition(message: impl AsRef<str>) -> Self {
        Self::new(ErrorKind::FailedPrecondition, message)
    }

    /// Somebody else was faster; read again and decide anew.
    pub fn conflict(message: impl AsRef<str>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// A limit is reached or there is no room left.
    pub fn exhausted(message: impl AsRef<str>) -> Self {
        Self::new(ErrorKind::ResourceExhausted, message)
    }

    /// The reason of [`overloaded`](Self::overloaded).
    pub const OVERLOADED: &'static str = "OVERLOADED";

    /// The reason for a stream that was ended because its client reads too slowly. The client can continue
    /// after the event that `after_seq` in the metadata names. Without it, the client stopped within a message,
    /// and can continue after its last one.
    pub const READS_TOO_SLOWLY: &'static str = "READS_TOO_SLOWLY";

    /// There is as much work as there may be, so that new work is refused and what was accepted goes
    /// on. Nothing was done or stored, and the same request may be made again after `delay`.
    pub fn overloaded(message: impl AsRef<str>, delay: Duration) -> Self {
        Self::exhausted(message)
            .reason(Self::OVERLOADED)
            .retry_after(delay)
    }

    /// Something that is needed cannot be reached now; trying again may help.
    pub fn unavailable(message: impl AsRef<str>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// Something broke that the caller can do nothing about.
    ///
    /// The source is logged with its chain where the error becomes a status; the client learns
    /// only that the error is internal.
    pub fn internal(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(ErrorKind::Internal, "internal error").caused_by(source)
    }

    /// Another field that is wrong as well. The first sixteen are sent.
    #[must_use]
    pub fn and_invalid(mut self, field: impl AsRef<str>, problem: impl AsRef<str>) -> Self {
        self.0.violations.push(FieldViolation {
            field: clip(field.as_ref(), MAX_FIELD),
            problem: clip(problem.as_ref(), MAX_PROBLEM),
            allowed: String::new(),
        });
        self
    }

    /// What would have been right for the field named last.
    #[must_use]
    pub fn allowed(mut self, allowed: impl AsRef<str>) -> Self {
        if let Some(violation) = self.0.violations.last_mut() {
            violation.allowed = clip(allowed.as_ref(), MAX_PROBLEM);
        }
        self
    }

    /// Names the error for programs. Once used, a reason keeps its name: `CURSOR_TRIMMED`.
    #[must_use]
    pub fn reason(mut self, reason: &'static str) -> Self {
        debug_assert!(
            is_reason(reason),
            "a reason is SCREAMING_SNAKE_CASE: {reason}"
        );
        self.0.reason = Cow::Borrowed(reason);
        self
    }

    /// When trying again makes sense.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.0.retry_after = Some(delay);
        self
    }

    /// A detail for programs, at most eight of them: `.meta("current_revision", "4")`.
    #[must_use]
    pub fn meta(mut self, key: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        if self.0.metadata.len() < MAX_METADATA {
            self.0.metadata.insert(
                clip(key.as_ref(), MAX_REASON),
                clip(value.as_ref(), MAX_PROBLEM),
            );
        }
        self
    }

    /// Adds to the end of the message for people: "; the request is stored".
    #[must_use]
    pub fn and_message(mut self, more: impl AsRef<str>) -> Self {
        let message = format!("{}{}", self.message(), more.as_ref());
        self.0.message = clip(&message, MAX_MESSAGE);
        self
    }

    /// What caused the error: for logs, never sent.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The stable name, in capitals.
    pub fn reason_name(&self) -> &str {
        &self.0.reason
    }

    /// The message for people; for wrong fields it names them all.
    pub fn message(&self) -> Cow<'_, str> {
        if !self.0.message.is_empty() || self.0.violations.is_empty() {
            return Cow::Borrowed(&self.0.message);
        }
        let faults: Vec<_> = self.0.violations.iter().map(|v| v.to_string()).collect();
        Cow::Owned(clip(&faults.join("; "), MAX_MESSAGE))
    }

    /// The fields that are wrong.
    pub fn violations(&self) -> &[FieldViolation] {
        &self.0.violations
    }

    /// When trying again makes sense, if the server said so.
    pub fn retry_delay(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// What caused the error, outermost first, on one line; empty without a cause. For logs, never
    /// sent.
    pub fn causes(&self) -> String {
        let mut chain = Vec::new();
        let mut cause = StdError::source(self);
        while let Some(source) = cause {
            chain.push(escape(&source.to_string()).into_owned());
            cause = source.source();
        }
        chain.join(": ")
    }

    /// The detail of this name.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.0.metadata.get(key).map(String::as_str)
    }
}

/// Whether a text is a name like `CURSOR_TRIMMED`.
fn is_reason(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.len() <= MAX_REASON
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(allowed)
}

impl fmt::Display for FieldViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.problem)?;
        if !self.allowed.is_empty() {
            write!(f, " (allowed: {})", self.allowed)?;
        }
        Ok(())
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.message() {
            "" => f.write_str(self.0.kind.name()),
            message => f.write_str(message),
        }
    }
}

impl StdError for RpcError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        let source = self.0.source.as_deref()?;
        Some(source)
    }
}
