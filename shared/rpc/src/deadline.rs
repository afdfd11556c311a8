//! Until when an answer is wanted.
//!
//! A caller says it in `grpc-timeout`. The server gives the call up a little before that, so
//! that a clear answer still arrives in time, and lets the handler know with a [`Deadline`]. A
//! link adds its own timeout to unary calls that say nothing ([`Deadlines`]); streams live as
//! long as they like unless the caller says otherwise.

use crate::error::RpcError;
use http::{HeaderMap, HeaderName, HeaderValue};
use prost::Message as _;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) const TIMEOUT_HEADER: HeaderName = HeaderName::from_static("grpc-timeout");

/// When the caller stops waiting: an extension of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(timeout: Duration) -> Option<Self> {
        Instant::now().checked_add(timeout).map(Self)
    }

    /// What is left; zero once it has passed.
    pub fn remaining(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// The point in time.
    pub fn instant(&self) -> Instant {
        self.0
    }
}

/// The deadline of a call, if its caller set one.
pub fn deadline<T>(request: &tonic::Request<T>) -> Option<Deadline> {
    request.extensions().get().copied()
}

/// The timeout that a link gives to unary calls that come without one. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Deadlines(Arc<Unary>);

#[derive(Debug)]
struct Unary {
    header: HeaderValue,
    methods: HashSet<String>,
}

impl Deadlines {
    /// `timeout` for each unary method of the services in the encoded descriptor sets.
    ///
    /// Streaming methods, and methods that are not described, are left without.
    ///
    /// # Errors
    /// InvalidArgument, if a descriptor set cannot be read.
    pub fn new(timeout: Duration, descriptor_sets: &[&[u8]]) -> Result<Self, RpcError> {
        let mut methods = HashSet::new();
        for encoded in descriptor_sets {
            let set = prost_types::FileDescriptorSet::decode(*encoded).map_err(|error| {
                RpcError::invalid("descriptor_sets", "cannot be read").caused_by(error)
            })?;
            methods.extend(set.file.iter().flat_map(unary_methods));
        }
        Ok(Self(Arc::new(Unary {
            header: header_value(timeout),
            methods,
        })))
    }

    /// What a call of this method is to say, unless it says something itself.
    pub(crate) fn missing(&self, path: &str, headers: &HeaderMap) -> Option<HeaderValue> {
        let is_missing = !headers.contains_key(TIMEOUT_HEADER) && self.0.methods.contains(path);
        is_missing.then(|| self.0.header.clone())
    }
}

fn unary_methods(file: &prost_types::FileDescriptorProto) -> Vec<String> {
    let mut paths = Vec::new();
    for service in &file.service {
        for method in &service.method {
            if !method.client_streaming() && !method.server_streaming() {
                let separator = if file.package().is_empty() { "" } else { "." };
                paths.push(format!(
                    "/{}{separator}{}/{}",
                    file.package(),
                    service.name(),
                    method.name()
                ));
            }
        }
    }
    paths
}

/// The timeout as `grpc-timeout` has it: at most eight digits and a unit.
fn header_value(timeout: Duration) -> HeaderValue {
    const MOST: u64 = 99_999_999;
    let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let text = if millis <= MOST {
        format!("{millis}m")
    } else {
        format!("{}S", timeout.as_secs().min(MOST))
    };
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("0m"))
}

/// The caller's timeout. What cannot be read counts as none, as gRPC servers do.
pub(crate) fn timeout_of(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(TIMEOUT_HEADER)?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let value: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(value * 3600)),
        "M" => Some(Duration::from_secs(value * 60)),
        "S" => Some(Duration::from_secs(value)),
        "m" => Some(Duration::from_millis(value)),
        "u" => Some(Duration::from_micros(value)),
        "n" => Some(Duration::from_nanos(value)),
        _ => None,
    }
}

/// How long the server works on a call with this timeout: a little less, so that its answer is
/// there before the caller's own clock, or the transport's, ends the call without a word.
pub(crate) fn serving_time(timeout: Duration) -> Duration {
    timeout - (timeout / 10).min(Duration::from_millis(5))
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost_types::{
        FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto, ServiceDescriptorProto,
    };

    fn headers(timeout: &str) -> HeaderMap {
        HeaderMap::from_iter([(TIMEOUT_HEADER, timeout.parse().unwrap())])
    }

    #[test]
    fn timeouts_are_read_in_every_unit() {
        let cases = [
            ("2H", Some(Duration::from_secs(7200))),
            ("3M", Some(Duration::from_secs(180))),
            ("99999999S", Some(Duration::from_secs(99_999_999))),
            ("250m", Some(Duration::from_millis(250))),
            ("7u", Some(Duration::from_micros(7))),
            ("9n", Some(Duration::from_nanos(9))),
            ("", None),
            ("m", None),
            ("5", None),
            ("-5m", None),
            ("+5m", None),
            ("5 m", None),
            ("5x", None),
            ("123456789m", None),
        ];
        for (text, want) in cases {
            assert_eq!(timeout_of(&headers(text)), want, "{text:?}");
        }
        assert_eq!(timeout_of(&HeaderMap::new()), None);
    }

    #[test]
    fn timeouts_are_written_as_they_are_read() {
        for timeout in [
            Duration::ZERO,
            Duration::from_millis(1),
            Duration::from_secs(30),
            Duration::from_secs(900_000),
        ] {
            let text = header_value(timeout);
            assert_eq!(timeout_of(&headers(text.to_str().unwrap())), Some(timeout));
        }
        assert_eq!(header_value(Duration::MAX), "99999999S");
    }

    #[test]
    fn only_unary_calls_without_a_timeout_get_one() {
        let method = |name: &str, streaming| MethodDescriptorProto {
            name: Some(name.to_owned()),
            server_streaming: Some(streaming),
            ..Default::default()
        };
        let file = FileDescriptorProto {
            package: Some("a.v1".to_owned()),
            service: vec![ServiceDescriptorProto {
                name: Some("S".to_owned()),
                method: vec![method("Get", false), method("Watch", true)],
                ..Default::default()
            }],
            ..Default::default()
        };
        let set = FileDescriptorSet { file: vec![file] }.encode_to_vec();
        let deadlines = Deadlines::new(Duration::from_secs(3), &[&set]).unwrap();
        let none = HeaderMap::new();
        assert_eq!(deadlines.missing("/a.v1.S/Get", &none).unwrap(), "3000m");
        assert_eq!(deadlines.missing("/a.v1.S/Get", &headers("1S")), None);
        assert_eq!(deadlines.missing("/a.v1.S/Watch", &none), None);
        assert_eq!(deadlines.missing("/b.v1.S/Get", &none), None);
        assert!(Deadlines::new(Duration::ZERO, &[b"\xff"]).is_err());
    }

    #[test]
    fn the_server_ends_a_call_a_little_early() {
        assert_eq!(
            serving_time(Duration::from_millis(10)),
            Duration::from_millis(9)
        );
        assert_eq!(
            serving_time(Duration::from_secs(1)),
            Duration::from_millis(995)
        );
        assert_eq!(serving_time(Duration::ZERO), Duration::ZERO);
    }
}
