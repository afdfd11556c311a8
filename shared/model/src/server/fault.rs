//! From a server's error to a [`ModelError`].

use crate::ModelError;
use crate::clean::Cleaner;
use cairn_http::{HttpError, HttpResponse};
use http::header::{DATE, HeaderMap, LOCATION, RETRY_AFTER};
use serde_json::Value;
use std::time::{Duration, SystemTime};

/// Most bytes of an error's body that are read.
const MAX_BODY: u64 = 64 * 1024;
/// Nobody waits longer; it also keeps absurd numbers out of sums.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The error that an answer with a status other than 200 stands for.
pub(super) async fn of_response(response: HttpResponse, cleaner: &Cleaner) -> ModelError {
    let status = response.status();
    let headers = response.headers().clone();
    let elapsed = response.elapsed();
    let (code, text) = match response.with_limit(MAX_BODY).bytes().await {
        Ok(body) => read_body(&body),
        // A part of it could end within the key, where nobody would find it.
        Err(HttpError::TooLarge { limit }) => (
            String::new(),
            format!("its explanation is larger than {limit} bytes"),
        ),
        Err(_) => Default::default(),
    };
    let mut message = cleaner.clean(&text);
    if message.is_empty() {
        message = match status.canonical_reason() {
            Some(reason) => format!("status {} {reason}", status.as_u16()),
            None => format!("status {}", status.as_u16()),
        };
    }
    if status.is_redirection() {
        let target = headers
            .get(LOCATION)
            .map(|to| String::from_utf8_lossy(to.as_bytes()));
        let target = cleaner.clean(&target.unwrap_or_default());
        message = format!("redirects are not followed, the base URL must lead there: {target}");
    }
    let what = Fault {
        status: status.as_u16(),
        code: &code,
        message,
    };
    what.classify(Some(elapsed), retry_after(&headers))
}

/// The error that an answer of status 200, or a piece of a stream, has in it.
pub(super) fn of_answer(error: &Value, cleaner: &Cleaner) -> ModelError {
    let (code, text) = read_error(error);
    let number = code
        .parse()
        .ok()
        .filter(|status| (400..600).contains(status));
    let kind = error
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let status = number.unwrap_or(match (code.as_str(), kind) {
        ("rate_limit_exceeded" | "insufficient_quota", _) => 429,
        (_, "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota") => 429,
        ("invalid_api_key", _) | (_, "authentication_error") => 401,
        (_, "invalid_request_error") => 400,
        ("context_length_exceeded", _) => 400,
        _ => 500,
    });
    let what = Fault {
        status,
        code: &code,
        message: cleaner.clean(&text),
    };
    what.classify(None, None)
}

struct Fault<'a> {
    status: u16,
    code: &'a str,
    message: String,
}

impl Fault<'_> {
    fn classify(self, elapsed: Option<Duration>, retry_after: Option<Duration>) -> ModelError {
        let too_long = self.is_too_long();
        let Self {
            status,
            code,
            message,
        } = self;
        match status {
            408 | 504 if let Some(after) = elapsed => ModelError::Timeout { after },
            401 | 403 => ModelError::Auth { message },
            // The account is empty: it has status 429, but waiting does not fill it.
            429 if code == "insufficient_quota" => ModelError::Auth { message },
            429 => ModelError::RateLimit {
                message,
                retry_after,
            },
            _ if too_long => ModelError::ContextLength { message },
            500.. => ModelError::Server { status, message },
            300..=499 => ModelError::BadRequest { message },
            _ => ModelError::BadAnswer { message },
        }
    }

    /// Only some servers have a code for it; the others say it in words.
    fn is_too_long(&self) -> bool {
        const WORDS: [&str; 5] = [
            "context length",
            "context window",
            "context size",
            "prompt is too long",
            "maximum context",
        ];
        let said = || {
            let message = self.message.to_lowercase();
            WORDS.iter().any(|words| message.contains(words))
        };
        self.code == "context_length_exceeded"
            || (matches!(self.status, 400 | 413 | 422 | 500) && said())
    }
}

/// Code and text of an error's body: JSON in one of the usual shapes, or just text.
fn read_body(body: &[u8]) -> (String, String) {
    match serde_json::from_slice::<Value>(body) {
        Ok(Value::Array(list)) => list.first().map(read_object).unwrap_or_default(),
        Ok(json) => read_object(&json),
        Err(_) => (String::new(), String::from_utf8_lossy(body).into_owned()),
    }
}

fn read_object(json: &Value) -> (String, String) {
    read_error(json.get("error").unwrap_or(json))
}

fn read_error(error: &Value) -> (String, String) {
    let field = |names: &[&str]| {
        let found = names.iter().find_map(|name| error.get(name));
        match found {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        }
    };
    match error {
        Value::String(text) => (String::new(), text.clone()),
        _ => (field(&["code"]), field(&["message", "detail", "error"])),
    }
}

/// The wait that the server asks for: milliseconds, seconds, or a date.
///
/// A date is compared with the server's own clock, so that ours need not agree with it.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name| text(name)?.parse::<f64>().ok();
    let wait = if let Some(milliseconds) = number("retry-after-ms") {
        seconds(milliseconds / 1000.0)?
    } else if let Some(number) = number(RETRY_AFTER.as_str()) {
        seconds(number)?
    } else {
        let until = date(text(RETRY_AFTER.as_str())?)?;
        let now = date(text(DATE.as_str())?)?;
        until.duration_since(now).unwrap_or_default()
    };
    Some(wait.min(LONGEST_WAIT))
}

fn seconds(number: f64) -> Option<Duration> {
    if number.is_nan() {
        return None;
    }
    Some(Duration::from_secs_f64(
        number.clamp(0.0, LONGEST_WAIT.as_secs_f64()),
    ))
}

fn date(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(headers: &[(&'static str, &str)]) -> Option<Duration> {
        let pair = |(name, value): &(&'static str, &str)| {
            (
                http::HeaderName::from_static(name),
                value.parse().expect("a value"),
            )
        };
        retry_after(&headers.iter().map(pair).collect())
    }

    #[test]
    fn a_wait_is_given_in_seconds_milliseconds_or_as_a_date() {
        let some = |seconds| Some(Duration::from_secs_f64(seconds));
        let now = ("date", "Wed, 21 Oct 2026 07:28:00 GMT");
        assert_eq!(wait(&[("retry-after", "7")]), some(7.0));
        assert_eq!(wait(&[("retry-after", "0.5")]), some(0.5));
        assert_eq!(
            wait(&[("retry-after", "9"), ("retry-after-ms", "250")]),
            some(0.25)
        );
        assert_eq!(
            wait(&[("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT"), now]),
            some(30.0)
        );
        assert_eq!(
            wait(&[("retry-after", "Wed, 21 Oct 2026 07:27:00 GMT"), now]),
            some(0.0)
        );
        assert_eq!(
            wait(&[("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT")]),
            None
        );
        assert_eq!(wait(&[("retry-after", "1e300")]), Some(LONGEST_WAIT));
        for odd in ["-3", "-inf"] {
            assert_eq!(wait(&[("retry-after", odd)]), some(0.0), "{odd}");
        }
        for bad in ["soon", "", "NaN"] {
            assert_eq!(wait(&[("retry-after", bad)]), None, "{bad}");
        }
        assert_eq!(wait(&[]), None);
    }

    #[test]
    fn an_error_inside_an_answer_is_classified_by_its_code_or_type() {
        let reason = |json: Value| of_answer(&json, &Cleaner::default()).reason();
        let cases = [
            (
                serde_json::json!({"code": 429, "message": "m"}),
                "RateLimit",
            ),
            (
                serde_json::json!({"code": "429", "message": "m"}),
                "RateLimit",
            ),
            (
                serde_json::json!({"code": "rate_limit_exceeded"}),
                "RateLimit",
            ),
            (
                serde_json::json!({"code": "insufficient_quota", "type": "x"}),
                "Auth",
            ),
            (
                serde_json::json!({"code": 504, "message": "upstream"}),
                "Server",
            ),
            (
                serde_json::json!({"code": "context_length_exceeded"}),
                "ContextLength",
            ),
            (serde_json::json!({"type": "authentication_error"}), "Auth"),
            (
                serde_json::json!({"type": "invalid_request_error"}),
                "BadRequest",
            ),
            (serde_json::json!("overloaded"), "Server"),
            (
                serde_json::json!({"message": "maximum context length is 5"}),
                "ContextLength",
            ),
        ];
        for (json, expected) in cases {
            assert_eq!(reason(json.clone()), expected, "{json}");
        }
    }
}
