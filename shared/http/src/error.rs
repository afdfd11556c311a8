//! What can go wrong between a client and a server.

use std::error::Error;
use std::time::Duration;

/// Why there is no client, or no answer. No variant carries a header, a body or a URL's query.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The configuration contradicts itself.
    #[error("the HTTP client cannot be configured: {message}")]
    Config {
        /// What is wrong, and what is allowed.
        message: &'static str,
    },
    /// The client cannot be built, for example because the system has no CA certificates.
    #[error("the HTTP client cannot be built")]
    Build {
        /// The cause.
        source: reqwest::Error,
    },
    /// The request is not one that can be sent: its URL or a header is invalid.
    #[error("the request cannot be sent")]
    Request {
        /// The cause.
        source: reqwest::Error,
    },
    /// No connection was made; the server has seen nothing of the request.
    #[error("no connection to {host}")]
    Connect {
        /// Host, with the port if the URL names one.
        host: String,
        /// The host is this machine, and nothing listens at the port.
        is_refused_here: bool,
        /// The cause.
        source: reqwest::Error,
    },
    /// A limit of time was reached; the server may have seen the request.
    #[error("no answer within {after:?}")]
    Timeout {
        /// The limit.
        after: Duration,
    },
    /// The connection broke before the answer was whole; the server may have seen the request.
    #[error("the connection broke")]
    Broken {
        /// The cause.
        source: reqwest::Error,
    },
    /// The answer is larger than it may be. Nothing of it is kept.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
}

impl HttpError {
    /// The error with its causes, for a log line or for an error without a source of its own.
    pub fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}
