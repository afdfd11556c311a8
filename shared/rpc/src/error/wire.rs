//! An [`RpcError`] as a gRPC status, and back.

use super::{
    ErrorKind, FieldViolation, MAX_FIELD, MAX_MESSAGE, MAX_PROBLEM, MAX_VIOLATIONS, RpcError,
    is_reason,
};
use crate::text::clip;
use std::borrow::Cow;
use std::collections::HashMap;
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt};

/// The domain of every reason that Cairn gives.
pub const DOMAIN: &str = "cairn";

/// What the message and the details of a status take in the response's headers, at most.
///
/// Clients limit the headers that they accept, some to 8 KiB; a larger status would reach them
/// as a broken response.
pub const MAX_STATUS_BYTES: usize = 4096;

/// Stands between a problem and what is allowed in the description of a field violation.
const ALLOWED: &str = "; allowed: ";

impl From<RpcError> for Status {
    fn from(error: RpcError) -> Self {
        log_cause(&error);
        encode(error)
    }
}

impl From<Status> for RpcError {
    fn from(status: Status) -> Self {
        Self::from_status(&status)
    }
}

impl From<&Status> for RpcError {
    fn from(status: &Status) -> Self {
        Self::from_status(status)
    }
}

impl RpcError {
    /// The error that a server sent. Whatever it says is bounded and escaped, as if it were made
    /// here; a reason of another domain is not taken over.
    pub fn from_status(status: &Status) -> Self {
        let kind = ErrorKind::from_code(status.code());
        let details = status.get_error_details();
        let mut error = Self::new(kind, "");
        if let Some(bad_request) = details.bad_request() {
            for violation in bad_request.field_violations.iter().take(MAX_VIOLATIONS) {
                let (problem, allowed) = violation
                    .description
                    .rsplit_once(ALLOWED)
                    .unwrap_or((&violation.description, ""));
                error = error
                    .and_invalid(&violation.field, problem)
                    .allowed(allowed);
            }
        }
        if let Some(info) = details.error_info().filter(|info| info.domain == DOMAIN) {
            if is_reason(&info.reason) {
                error.0.reason = Cow::Owned(info.reason.clone());
            }
            for (key, value) in &info.metadata {
                error = error.meta(key, value);
            }
        }
        error.0.retry_after = details.retry_info().and_then(|info| info.retry_delay);
        let message = clip(status.message(), MAX_MESSAGE);
        if message != error.message() {
            error.0.message = message;
        }
        error
    }
}

/// The status of an error that is in the log already.
pub(crate) fn unlogged(error: RpcError) -> Status {
    encode(error)
}

fn encode(mut error: RpcError) -> Status {
    error.0.violations.truncate(MAX_VIOLATIONS);
    loop {
        let status = status_of(&error);
        if header_bytes(&status) <= MAX_STATUS_BYTES || !shed(&mut error) {
            return status;
        }
    }
}

fn status_of(error: &RpcError) -> Status {
    let inner = &error.0;
    let mut details = ErrorDetails::new();
    let metadata: HashMap<_, _> = inner.metadata.clone().into_iter().collect();
    details.set_error_info(inner.reason.as_ref(), DOMAIN, metadata);
    for violation in &inner.violations {
        details.add_bad_request_violation(&violation.field, description(violation));
    }
    if inner.retry_after.is_some() {
        details.set_retry_info(inner.retry_after);
    }
    Status::with_error_details(inner.kind.code(), error.message(), details)
}

fn description(violation: &FieldViolation) -> String {
    if violation.allowed.is_empty() {
        return violation.problem.clone();
    }
    format!("{}{ALLOWED}{}", violation.problem, violation.allowed)
}

/// Takes away what matters least. Says whether there was anything left to take.
fn shed(error: &mut RpcError) -> bool {
    let inner = &mut error.0;
    if inner.violations.len() > 1 {
        inner.violations.pop();
    } else if inner.metadata.pop_last().is_some() {
        // One entry less.
    } else if inner.message.len() > MAX_PROBLEM {
        inner.message = clip(&inner.message, inner.message.len() / 2);
    } else if let Some(last) = inner.violations.first_mut() {
        // A single field fits in any case if its texts are as short as names.
        if last.problem.len() + last.allowed.len() <= MAX_FIELD {
            return false;
        }
        last.problem = clip(&last.problem, MAX_FIELD / 2);
        last.allowed = clip(&last.allowed, MAX_FIELD / 2);
    } else {
        return false;
    }
    true
}

/// An upper bound of what the message and the details take in headers.
fn header_bytes(status: &Status) -> usize {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_.,:;/()'=".contains(b);
    let message: usize = status
        .message()
        .as_bytes()
        .iter()
        .map(|b| if plain(b) { 1 } else { 3 })
        .sum();
    message + status.details().len().div_ceil(3) * 4
}

fn log_cause(error: &RpcError) {
    let ours = matches!(error.kind(), ErrorKind::Internal | ErrorKind::DataLoss);
    if !ours {
        return;
    }
    let (reason, cause) = (error.reason_name(), error.causes());
    tracing::error!(reason, cause, "{error}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;
    use proptest::prelude::*;
    use std::time::Duration;
    use tonic::Code;

    fn sent(error: RpcError) -> RpcError {
        let mut headers = HeaderMap::new();
        Status::from(error).add_header(&mut headers).unwrap();
        RpcError::from_status(&Status::from_header_map(&headers).unwrap())
    }

    #[test]
    fn everything_in_an_error_survives_the_wire() {
        let error = RpcError::invalid("plan.steps[3].tool", "is not known")
            .allowed("list_files, read_file")
            .and_invalid("title", "is empty")
            .reason("PLAN_REFUSED")
            .retry_after(Duration::from_millis(1500))
            .meta("revision", "4");
        let back = sent(error);
        assert_eq!(back.kind(), ErrorKind::InvalidArgument);
        assert_eq!(back.reason_name(), "PLAN_REFUSED");
        assert_eq!(back.retry_delay(), Some(Duration::from_millis(1500)));
        assert_eq!(back.metadata("revision"), Some("4"));
        assert_eq!(
            back.to_string(),
            "plan.steps[3].tool is not known (allowed: list_files, read_file); title is empty"
        );
        assert_eq!(back.violations().len(), 2);
        assert_eq!(back.violations()[0].allowed, "list_files, read_file");
        assert_eq!(back.violations()[1].problem, "is empty");
    }

    #[test]
    fn every_kind_survives_the_wire() {
        for kind in ErrorKind::ALL {
            let back = sent(RpcError::new(kind, "some text"));
            assert_eq!((back.kind(), &*back.message()), (kind, "some text"));
            assert_eq!(back.reason_name(), kind.reason());
        }
    }

    #[test]
    fn a_status_of_somebody_else_gets_the_kinds_reason() {
        let status = Status::with_error_details(
            Code::NotFound,
            "no\r\nsuch\u{202e}thing",
            ErrorDetails::with_error_info("TAKEN_OVER", "elsewhere.example", HashMap::new()),
        );
        let error = RpcError::from_status(&status);
        assert_eq!(error.reason_name(), "NOT_FOUND");
        assert_eq!(error.message(), "no\\r\\nsuch\\u{202e}thing");

        let broken = Status::with_details(Code::Aborted, "x", vec![0xff, 0xff, 0xff].into());
        assert_eq!(RpcError::from_status(&broken).kind(), ErrorKind::Conflict);
    }

    #[test]
    fn the_cause_of_an_internal_error_is_not_sent() {
        let status = Status::from(RpcError::internal("password=hunter2"));
        let mut headers = HeaderMap::new();
        status.add_header(&mut headers).unwrap();
        assert_eq!(status.message(), "internal error");
        assert!(!String::from_utf8_lossy(status.details()).contains("hunter2"));
        assert!(!format!("{headers:?}").contains("hunter2"));
    }

    #[test]
    fn ids_in_messages_are_escaped_and_cut() {
        let error = RpcError::not_found("session", format!("a\r\nb{}", "x".repeat(9999)));
        assert!(error.message().starts_with("session \"a\\r\\nbxx"));
        assert!(error.message().len() < 200);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_status_always_fits_into_its_headers(
            message in ".{0,3000}",
            fields in prop::collection::vec((".{0,300}", ".{0,600}", ".{0,600}"), 0..30),
            meta in prop::collection::vec((".{1,80}", ".{0,600}"), 0..12),
        ) {
            let mut error = RpcError::new(ErrorKind::InvalidArgument, message);
            for (field, problem, allowed) in fields {
                error = error.and_invalid(field, problem).allowed(allowed);
            }
            for (key, value) in meta {
                error = error.meta(key, value);
            }
            let mut headers = HeaderMap::new();
            Status::from(error).add_header(&mut headers).unwrap();
            let bytes: usize = ["grpc-message", "grpc-status-details-bin"]
                .iter()
                .filter_map(|name| headers.get(*name))
                .map(http::HeaderValue::len)
                .sum();
            prop_assert!(bytes <= MAX_STATUS_BYTES, "{} bytes", bytes);
            prop_assert!(Status::from_header_map(&headers).is_some());
        }
    }
}
