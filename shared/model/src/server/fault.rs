//! From a server's error to a [`ModelError`].

use crate::ModelError;
use crate::clean::Cleaner;
use cairn_http::{HttpError, HttpResponse};
use http::header::{DATE, HeaderMap, LOCATION, RETRY_AFTER};
use serde::de::IgnoredAny;
use serde_json::Value;
use std::time::{Duration, SystemTime};

/// Most bytes of an error's body that are read.
const MAX_BODY: u64 = 64 * 1024;
/// The status with which Anthropic says that it has too much to do.
const OVERLOADED: u16 = 529;
/// Nobody waits longer; it also keeps absurd numbers out of sums.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The error that an answer with a status other than 200 stands for.
pub(crate) async fn of_response(response: HttpResponse, cleaner: &Cleaner) -> ModelError {
    let status = response.status();
    let headers = response.headers().clone();
    let elapsed = response.elapsed();
    let said = match response.with_limit(MAX_BODY).bytes().await {
        Ok(body) => Said::of_body(&body),
        // A part of it could end within the key, where nobody would find it.
        Err(HttpError::TooLarge { limit }) => Said {
            text: format!("its explanation is larger than {limit} bytes"),
            ..Said::default()
        },
        Err(_) => Said::default(),
    };
    let mut message = said.message(cleaner);
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
        code: &said.code,
        kind: &said.kind,
        message,
    };
    what.classify(Some(elapsed), retry_after(&headers))
}

/// The error that an answer of status 200, or a piece of a stream, has in it.
pub(crate) fn of_answer(error: &Value, cleaner: &Cleaner) -> ModelError {
    let said = Said::of_error(error);
    let number = said.code.parse().ok();
    let number = number.filter(|status| (400..600).contains(status));
    let mut message = said.message(cleaner);
    if message.is_empty() {
        message = cleaner.clean(&error.to_string());
    }
    let what = Fault {
        status: number.unwrap_or_else(|| status_of(&said.code, &said.kind)),
        code: &said.code,
        kind: &said.kind,
        message,
    };
    what.classify(None, None)
}

/// The error in the data of an event that is named an error: JSON in one of the usual shapes, or a text.
pub(crate) fn of_event(data: &str, cleaner: &Cleaner) -> ModelError {
    let text = if data.is_empty() {
        "the server sent an error without a text"
    } else {
        data
    };
    let json = serde_json::from_str(data).unwrap_or_else(|_| Value::String(text.to_owned()));
    let json = match json {
        Value::Array(mut list) if !list.is_empty() => list.swap_remove(0),
        other => other,
    };
    match json.get("error") {
        Some(error) if !error.is_null() => of_answer(error, cleaner),
        _ => of_answer(&json, cleaner),
    }
}

/// The error that a list stands for: no protocol answers with one, and some servers put their error into it.
pub(crate) fn of_list(json: &[u8], cleaner: &Cleaner) -> ModelError {
    let list: Result<Vec<Value>, _> = serde_json::from_slice(json);
    match list {
        Ok(list) => match list.first().and_then(|first| first.get("error")) {
            Some(error) => of_answer(error, cleaner),
            None => senseless("it is a list", json, cleaner),
        },
        Err(error) => of_json(&error, json, cleaner),
    }
}

/// The error of a reply that the server gave up, by the name of its end.
pub(crate) fn of_end(name: &str) -> ModelError {
    ModelError::Server {
        status: status_of(name, ""),
        message: format!("the reply ended with {name}"),
    }
}

/// The error that JSON stands for which is not what the protocol says.
pub(crate) fn of_json(error: &serde_json::Error, json: &[u8], cleaner: &Cleaner) -> ModelError {
    // A wrong type is found before a fault behind it.
    let well_formed = || serde_json::from_slice::<IgnoredAny>(json).map(drop);
    let spoiled = if error.is_data() {
        well_formed().err().map(|fault| fault.to_string())
    } else {
        Some(error.to_string())
    };
    match spoiled {
        None => senseless(&error.to_string(), json, cleaner),
        Some(_) if json.is_empty() => ModelError::Stream {
            message: "what came is empty".to_owned(),
        },
        // It is a piece of the reply: what is asked again is logged, and no reply is.
        Some(fault) => ModelError::Stream {
            message: format!("what came is no JSON: {fault}"),
        },
    }
}

/// The error of an answer that arrived and makes no sense; asking again would bring the same.
pub(crate) fn senseless(why: &str, json: &[u8], cleaner: &Cleaner) -> ModelError {
    let said = format!("{why}: {}", String::from_utf8_lossy(json));
    ModelError::BadAnswer {
        message: cleaner.clean(&said),
    }
}

/// Refuses a page or a text in the place of a whole answer: it comes from something that is no
/// model's server, again and again.
pub(crate) fn refuse_other_than_json(body: &[u8], cleaner: &Cleaner) -> Result<(), ModelError> {
    match body.trim_ascii_start().first() {
        None | Some(b'{' | b'[') => Ok(()),
        Some(_) => {
            let text = without_tags(&String::from_utf8_lossy(body));
            let why = "it is no JSON; check the base URL";
            Err(senseless(why, text.as_bytes(), cleaner))
        }
    }
}

/// The status that an error would have had before the answer began.
fn status_of(code: &str, kind: &str) -> u16 {
    let named = |name: &str| match name {
        "rate_limit_exceeded" | "rate_limit_error" | "insufficient_quota" => Some(429),
        "invalid_api_key" | "authentication_error" => Some(401),
        "billing_error" => Some(402),
        "permission_error" => Some(403),
        "not_found_error" | "model_not_found" | "NotFoundError" => Some(404),
        "request_too_large" => Some(413),
        "overloaded_error" => Some(OVERLOADED),
        "invalid_request_error"
        | "BadRequestError"
        | "context_length_exceeded"
        | "exceed_context_size_error" => Some(400),
        _ => None,
    };
    named(code).or_else(|| named(kind)).unwrap_or(500)
}

/// What a server says of an error, in one of the usual shapes.
#[derive(Default)]
struct Said {
    code: String,
    kind: String,
    text: String,
    /// The field of the request that it is about.
    field: String,
}

impl Said {
    /// The text for people, with the field that it is about.
    fn message(&self, cleaner: &Cleaner) -> String {
        let (message, field) = (cleaner.clean(&self.text), cleaner.clean(&self.field));
        match message.is_empty() || message.contains(&field) {
            true => message,
            false => format!("{message} ({field})"),
        }
    }

    fn of_body(body: &[u8]) -> Self {
        let json = match serde_json::from_slice::<Value>(body) {
            Ok(Value::Array(list)) => list.into_iter().next().unwrap_or_default(),
            Ok(json) => json,
            Err(_) => Value::String(without_tags(&String::from_utf8_lossy(body))),
        };
        Self::of_error(json.get("error").unwrap_or(&json))
    }

    fn of_error(error: &Value) -> Self {
        let field = |names: &[&str]| match names.iter().find_map(|name| error.get(name)) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        match error {
            Value::String(text) => Self {
                text: text.clone(),
                ..Self::default()
            },
            _ => Self {
                code: field(&["code"]),
                kind: field(&["type", "error_type"]),
                text: field(&["message", "detail", "error", "error_message"]),
                field: field(&["param"]),
            },
        }
    }
}

/// What a page of a proxy says: its words without the marks. Other texts stay as they are.
fn without_tags(text: &str) -> String {
    if !text.trim_start().starts_with('<') {
        return text.to_owned();
    }
    let mut words = String::new();
    for part in text.split('<') {
        let (_, after) = part.split_once('>').unwrap_or_default();
        words.push_str(after);
        words.push(' ');
    }
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

struct Fault<'a> {
    status: u16,
    code: &'a str,
    kind: &'a str,
    message: String,
}

impl Fault<'_> {
    fn classify(self, elapsed: Option<Duration>, retry_after: Option<Duration>) -> ModelError {
        let too_long = self.is_too_long();
        let is_empty = self.is("insufficient_quota") || self.is("billing_error");
        let Self {
            status, message, ..
        } = self;
        match status {
            408 | 504 if let Some(after) = elapsed => ModelError::Timeout { after },
            401..=403 => ModelError::Auth { message },
            // The account is empty: waiting does not fill it.
            429 if is_empty => ModelError::Auth { message },
            _ if too_long => ModelError::ContextLength { message },
            429 | OVERLOADED => ModelError::RateLimit {
                message,
                retry_after,
            },
            // A server that says when to come back is busy, not broken.
            503 if retry_after.is_some() => ModelError::RateLimit {
                message,
                retry_after,
            },
            500.. => ModelError::Server { status, message },
            300..=499 => ModelError::BadRequest { message },
            _ => ModelError::BadAnswer { message },
        }
    }

    fn is(&self, name: &str) -> bool {
        self.code == name || self.kind == name
    }

    /// Only some servers have a code for it; the others say it in words.
    fn is_too_long(&self) -> bool {
        const NAMES: [&str; 3] = [
            "context_length_exceeded",
            "exceed_context_size_error",
            "request_too_large",
        ];
        const WORDS: [&str; 9] = [
            "context length",
            "context window",
            "context size",
            "context limit",
            "prompt is too long",
            "input is too long",
            "maximum context",
            "maximum number of tokens",
            "reduce the length of the messages",
        ];
        let said = |words: &[&str]| {
            let message = self.message.to_lowercase();
            words.iter().any(|words| message.contains(words))
        };
        match self.status {
            // One question that is larger than what a minute may have never fits.
            429 => said(&["request too large"]),
            400 | 413 | 422 | 500 => NAMES.iter().any(|name| self.is(name)) || said(&WORDS),
            _ => NAMES.iter().any(|name| self.is(name)),
        }
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
    fn an_event_that_is_named_an_error_is_one_whatever_its_data_is() {
        let shown = |data: &str| of_event(data, &Cleaner::default()).to_string();
        let cases = [
            (
                r#"{"error": {"message": "one", "code": 503}}"#,
                "status 503: one",
            ),
            (
                r#"{"message": "two", "type": "server_error"}"#,
                "status 500: two",
            ),
            (
                r#"{"error": null, "why": "three"}"#,
                r#"{"error":null,"why":"three"}"#,
            ),
            ("four", "status 500: four"),
            ("\"five\"", "status 500: five"),
            ("", "an error without a text"),
        ];
        for (data, expected) in cases {
            let shown = shown(data);
            assert!(shown.ends_with(expected), "{shown}");
        }
    }

    #[test]
    fn an_error_inside_an_answer_is_classified_by_its_code_or_type() {
        use serde_json::json;
        let reason = |json: Value| of_answer(&json, &Cleaner::default()).reason();
        let cases = [
            (json!({"code": 429, "message": "m"}), "RateLimit"),
            (json!({"code": "429", "message": "m"}), "RateLimit"),
            (json!({"code": "rate_limit_exceeded"}), "RateLimit"),
            (json!({"code": "insufficient_quota", "type": "x"}), "Auth"),
            (json!({"code": 504, "message": "upstream"}), "Server"),
            (json!({"code": "context_length_exceeded"}), "ContextLength"),
            (json!({"type": "authentication_error"}), "Auth"),
            (json!({"type": "invalid_request_error"}), "BadRequest"),
            (
                json!({"error_type": "context_length_exceeded", "error_message": "m"}),
                "ContextLength",
            ),
            (json!("overloaded"), "Server"),
            (json!({"type": "overloaded_error"}), "RateLimit"),
            (json!({"type": "rate_limit_error"}), "RateLimit"),
            (json!({"type": "billing_error"}), "Auth"),
            (json!({"type": "permission_error"}), "Auth"),
            (json!({"type": "not_found_error"}), "BadRequest"),
            (json!({"type": "api_error"}), "Server"),
            (json!({"type": "request_too_large"}), "ContextLength"),
            (
                json!({"code": 400, "type": "exceed_context_size_error"}),
                "ContextLength",
            ),
            (
                json!({"code": 429, "message": "Request too large for m on tokens per min"}),
                "ContextLength",
            ),
            (
                json!({"message": "maximum context length is 5"}),
                "ContextLength",
            ),
        ];
        for (json, expected) in cases {
            assert_eq!(reason(json.clone()), expected, "{json}");
        }
    }
}
