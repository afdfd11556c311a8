//! What went wrong with a server, in words that show neither an address's query nor a header.

use super::frame::{REFUSED, UNREADABLE};
use super::web::is_refusal;
use crate::text;
use cairn_http::RawError;
use http::StatusCode;
use rmcp::model::ErrorData;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::{HttpStatusError, StreamableHttpError};
use std::error::Error;

/// Most characters of a server's own words in an error.
const MOST_WORDS: usize = 300;

/// How a message got lost.
pub(crate) struct Broken {
    /// In words, after "the server".
    pub(crate) why: String,
    /// The server has certainly not acted on it.
    pub(crate) is_unsent: bool,
    /// The server wants other credentials.
    pub(crate) is_refused: bool,
    /// How long the server wants to be left alone, in words that follow "wait".
    pub(crate) put_off: Option<String>,
}

impl Broken {
    fn maybe_sent(why: &str) -> Self {
        Self {
            why: why.to_owned(),
            is_unsent: false,
            is_refused: false,
            put_off: None,
        }
    }

    fn unsent(why: impl Into<String>) -> Self {
        Self {
            is_unsent: true,
            why: why.into(),
            is_refused: false,
            put_off: None,
        }
    }

    fn refused(why: &str) -> Self {
        Self {
            is_refused: true,
            ..Self::unsent(why)
        }
    }

    /// What a transport says about a message.
    pub(crate) fn of_transport(error: &DynamicTransportError) -> Self {
        let mut source: Option<&(dyn Error + 'static)> = Some(error.error.as_ref());
        while let Some(current) = source {
            if let Some(http) = current.downcast_ref::<StreamableHttpError<RawError>>() {
                return Self::of_http(http);
            }
            if let Some(io) = current.downcast_ref::<std::io::Error>() {
                // A line is acted on once its end was written, which is what failed.
                return Self::unsent(format!("does not read its standard input: {io}"));
            }
            source = current.source();
        }
        Self::maybe_sent("closed the connection")
    }

    fn of_status(error: &HttpStatusError) -> Self {
        let after = error.retry_after.as_deref().map(shown);
        let words = after.as_ref();
        let words = words.map_or_else(String::new, |it| format!(" (Retry-After: {it})"));
        let why = format!("answered with HTTP status {}{words}", error.status);
        let status = StatusCode::from_u16(error.status).ok();
        let is_refusal = |status| is_refusal(status, false, after.is_some());
        if !status.is_some_and(is_refusal) {
            return Self::maybe_sent(&why);
        }
        let is_busy = matches!(
            status,
            Some(StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
        );
        Self {
            put_off: is_busy.then(|| wait_of(after.as_deref())),
            ..Self::unsent(why)
        }
    }

    fn of_http(error: &StreamableHttpError<RawError>) -> Self {
        match error {
            // The library's own texts show the whole address.
            StreamableHttpError::Client(error) if error.is_connect() => {
                Self::unsent(format!("cannot be connected to{}", deepest(error)))
            }
            StreamableHttpError::Client(error) if error.is_builder() => {
                Self::unsent("cannot be sent a request with these headers")
            }
            StreamableHttpError::Client(error) => {
                Self::maybe_sent(&format!("broke the connection{}", deepest(error)))
            }
            StreamableHttpError::HttpStatus(error) => Self::of_status(error),
            StreamableHttpError::AuthRequired(_) => {
                Self::refused("wants credentials: set them with headers")
            }
            StreamableHttpError::InsufficientScope(_) => {
                Self::refused("wants more rights than its credentials have")
            }
            StreamableHttpError::SessionExpired => Self::unsent("has ended the session"),
            StreamableHttpError::ReservedHeaderConflict(name) => Self::unsent(format!(
                "cannot be sent the header {name}, which is set already"
            )),
            _ => Self::maybe_sent("answered what is not the protocol, or broke the connection"),
        }
    }
}

/// The wait that a `Retry-After` stands for: seconds or a date.
fn wait_of(after: Option<&str>) -> String {
    match after.map(|it| (it, it.parse::<u64>())) {
        None => "a while".to_owned(),
        Some((_, Ok(seconds))) => format!("{seconds} s"),
        Some((date, Err(_))) => format!("until {date}"),
    }
}

/// The innermost cause: it names no address.
fn deepest(error: &RawError) -> String {
    let mut source = error.source();
    while let Some(next) = source.and_then(Error::source) {
        source = Some(next);
    }
    source.map_or_else(String::new, |source| format!(": {source}"))
}

/// Why no connection came about.
pub(crate) fn of_start(error: &ClientInitializeError) -> Broken {
    match error {
        ClientInitializeError::ConnectionClosed(_) => {
            Broken::maybe_sent("closed the connection during the handshake")
        }
        ClientInitializeError::TransportError { error, .. } => Broken::of_transport(error),
        ClientInitializeError::JsonRpcError(error) => {
            Broken::maybe_sent(&format!("refused the handshake: {}", words(error)))
        }
        ClientInitializeError::NoCompatibleProtocolVersion {
            server_supported, ..
        } => {
            let versions = server_supported.iter().map(ToString::to_string);
            let versions: Vec<_> = versions.take(5).collect();
            let versions = text::brief(&versions.join(", "), 100);
            Broken::maybe_sent(&format!(
                "speaks other versions of the protocol: {versions}"
            ))
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => of_start(fallback),
        _ => Broken::maybe_sent("answered the handshake with what is not the protocol"),
    }
}

/// Why a request of this client's own failed.
pub(crate) fn of_request(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => format!("answered with an error: {}", words(error)),
        ServiceError::TransportSend(error) => Broken::of_transport(error).why,
        ServiceError::TransportClosed => "closed the connection".to_owned(),
        _ => "answered what is not the protocol".to_owned(),
    }
}

/// A server's own words, bounded and in one line.
pub(crate) fn words(error: &ErrorData) -> String {
    let line = shown(&error.message);
    match error.code {
        // Codes of this client, which say nothing to a person.
        UNREADABLE | REFUSED => line,
        code => format!("{line} (code {})", code.0),
    }
}

fn shown(words: &str) -> String {
    let line: String = words
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    text::brief(&line, MOST_WORDS)
}
