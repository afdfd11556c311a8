//! What can go wrong with a model.

use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::limits::LARGEST_REPLY;
use cairn_engine::message::Usage;
use cairn_http::HttpError;
use std::time::Duration;

/// Why a model did not answer. No variant carries a key or a header.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The provider's rate limit is reached, or it has too much to do.
    #[error("the provider asks to slow down{}: {message}", wait_of(*retry_after))]
    RateLimit {
        /// What the provider said, cut and cleaned.
        message: String,
        /// How long it asks to wait. Where that is longer than retries may take, the time in the
        /// text of the error is for the person who starts the work again.
        retry_after: Option<Duration>,
    },
    /// No answer in time.
    #[error("no answer within {after:?}")]
    Timeout {
        /// The limit.
        after: Duration,
    },
    /// The connection broke, the stream ended before the reply did, or what came was spoiled on
    /// its way and is no JSON any more.
    #[error("the connection to the provider broke: {message}")]
    Stream {
        /// What happened.
        message: String,
    },
    /// Nothing listens at the provider's address, which is on this machine. The retry policy tries it
    /// again, once.
    #[error(
        "no server listens at {address}; start the model's server, or correct the setting base_url \
         of the model"
    )]
    ConnectionRefused {
        /// Host and port.
        address: String,
    },
    /// The provider failed (5xx).
    #[error("the provider failed with status {status}: {message}")]
    Server {
        /// HTTP status.
        status: u16,
        /// What the provider said, cut and cleaned.
        message: String,
    },
    /// The key is missing, wrong or not allowed to do this, or its account is used up.
    #[error("the provider refused the key or its account: {message}")]
    Auth {
        /// What the provider said, cut and cleaned.
        message: String,
    },
    /// The conversation does not fit into the model's window. Asking again does not help; a
    /// shorter conversation or a larger window does.
    #[error(
        "the conversation is longer than the model's window; shorten it, split the step or use a \
         model with a larger window: {message}"
    )]
    ContextLength {
        /// What the provider said, cut and cleaned.
        message: String,
    },
    /// The request is wrong, and trying again will not help.
    #[error("the provider refused the request: {message}")]
    BadRequest {
        /// What the provider said, cut and cleaned.
        message: String,
    },
    /// The answer arrived and makes no sense, so that asking again would bring the same.
    #[error("the provider's answer cannot be read: {message}")]
    BadAnswer {
        /// What is wrong with it.
        message: String,
    },
    /// The reply is whole and has neither text nor calls. The retry policy requests another one, once.
    #[error(
        "the model's reply is {content}: it has no text and no tool calls; send the request again, \
         or use another model"
    )]
    Empty {
        /// What the reply has instead: `empty`, `blank` or `only reasoning`.
        content: &'static str,
        /// What this reply and earlier ones without content used up.
        usage: Usage,
    },
    /// The reply is larger than it may be, and nothing of it is kept.
    #[error(
        "the model's reply is larger than {limit} bytes (the setting model.max_reply_bytes); ask \
         for less at a time, set max_output_tokens of the model, or raise the setting (allowed: up \
         to {})",
        LARGEST_REPLY
    )]
    TooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
}

impl ModelError {
    /// Stable name, for programs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::RateLimit { .. } => "RateLimit",
            Self::Timeout { .. } => "Timeout",
            Self::Stream { .. } => "Stream",
            Self::ConnectionRefused { .. } => "ConnectionRefused",
            Self::Server { .. } => "Server",
            Self::Auth { .. } => "Auth",
            Self::ContextLength { .. } => "ContextLength",
            Self::BadRequest { .. } => "BadRequest",
            Self::BadAnswer { .. } => "BadAnswer",
            Self::Empty { .. } => "EmptyReply",
            Self::TooLarge { .. } => "reply_too_large",
        }
    }

    /// Whether the same request may succeed when it is sent again: rate limit, timeout, broken
    /// connection, a refused connection, the provider's own faults, and a reply without content.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::RateLimit { .. }
            | Self::Timeout { .. }
            | Self::Stream { .. }
            | Self::ConnectionRefused { .. }
            | Self::Server { .. }
            | Self::Empty { .. } => true,
            Self::Auth { .. }
            | Self::ContextLength { .. }
            | Self::BadRequest { .. }
            | Self::BadAnswer { .. }
            | Self::TooLarge { .. } => false,
        }
    }

    /// What the question used up although it has no reply; none if the provider counts nothing for it.
    pub fn usage(&self) -> Option<Usage> {
        match self {
            Self::Empty { usage, .. } => Some(*usage),
            _ => None,
        }
    }

    /// How long the provider asks to wait before the next attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimit { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl From<HttpError> for ModelError {
    fn from(error: HttpError) -> Self {
        let message = error.with_causes();
        match error {
            HttpError::Timeout { after } => Self::Timeout { after },
            HttpError::Connect {
                host,
                is_refused_here: true,
                ..
            } => Self::ConnectionRefused { address: host },
            HttpError::Connect { .. } | HttpError::Broken { .. } => Self::Stream { message },
            HttpError::TooLarge { limit } => Self::TooLarge { limit },
            _ => Self::BadRequest { message },
        }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        let kind = match error {
            ModelError::TooLarge { .. } => FailureKind::LimitExceeded,
            _ => FailureKind::Llm,
        };
        Failure::new(kind, error.reason(), error.to_string())
    }
}

fn wait_of(retry_after: Option<Duration>) -> String {
    retry_after.map_or_else(String::new, |wait| format!(" and to wait {wait:?}"))
}
