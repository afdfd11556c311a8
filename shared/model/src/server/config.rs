//! Settings of an OpenAI-compatible model, and their check.

use crate::clean::Cleaner;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_http::Url;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use std::time::Duration;

/// How the server calls the limit on a reply's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxTokensField {
    /// `max_tokens`: what most servers understand.
    MaxTokens,
    /// `max_completion_tokens`: what OpenAI's own newer models insist on.
    MaxCompletionTokens,
}

/// Where a model is and how it is called. Neither `Debug` nor any error shows the key or the value
/// of an extra header.
#[derive(Debug, Clone)]
pub struct OpenAiConfig {
    /// The address up to and without `/chat/completions`, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The model's name at the server.
    pub model: String,
    /// Sent as `Authorization: Bearer …`; local servers often need none.
    pub api_key: Option<SecretString>,
    /// Headers sent besides; they are taken for secrets too.
    pub extra_headers: Vec<(String, SecretString)>,
    /// Longest time for a connection to stand.
    pub connect_timeout: Duration,
    /// Longest time for a reply, streamed or not.
    pub total_timeout: Duration,
    /// Longest silence of a stream: before its first piece, and between two.
    pub idle_timeout: Duration,
    /// Most bytes of an answer, streamed or not.
    pub max_response_bytes: u64,
    /// Tokens that fit into one conversation.
    pub window_tokens: u64,
    /// Price of a million tokens sent, in 10⁻⁹ US dollars.
    pub input_nano_usd_per_million: u64,
    /// Price of a million tokens received, in 10⁻⁹ US dollars.
    pub output_nano_usd_per_million: u64,
    /// How the server calls the limit on a reply's length.
    pub max_tokens_field: MaxTokensField,
    /// Ask for usage in streams; off for servers that refuse the option. Usage is then estimated.
    pub stream_usage: bool,
    /// Allow the key to travel over plain HTTP to another machine, where anybody on the way can
    /// read it.
    pub allow_insecure_http: bool,
}

impl OpenAiConfig {
    /// Settings for `model` at `base_url`: no key, a window of 128,000 tokens, price 0, 10 s to
    /// connect, 10 minutes for a reply, 2 minutes of silence, 16 MiB.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        let base_url = base_url.into();
        let own = Url::parse(&base_url).is_ok_and(|url| url.host_str() == Some("api.openai.com"));
        Self {
            base_url,
            model: model.into(),
            api_key: None,
            extra_headers: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            total_timeout: Duration::from_secs(600),
            idle_timeout: Duration::from_secs(120),
            max_response_bytes: 16 * 1024 * 1024,
            window_tokens: 128_000,
            input_nano_usd_per_million: 0,
            output_nano_usd_per_million: 0,
            max_tokens_field: if own {
                MaxTokensField::MaxCompletionTokens
            } else {
                MaxTokensField::MaxTokens
            },
            stream_usage: true,
            allow_insecure_http: false,
        }
    }

    pub(super) fn check(&self) -> Result<Endpoint, Failure> {
        if self.model.trim().is_empty() {
            return Err(Failure::missing("model name"));
        }
        let url = self.check_url()?;
        let headers = self.headers()?;
        let secrets = self.extra_headers.iter().map(|(_, value)| value.clone());
        Ok(Endpoint {
            url,
            headers,
            cleaner: Cleaner::new(secrets.chain(self.key().map(SecretString::from))),
        })
    }

    /// The key without the line end that a file or a shell may have left on it.
    fn key(&self) -> Option<&str> {
        self.api_key.as_ref().map(|key| key.expose_secret().trim())
    }

    fn check_url(&self) -> Result<String, Failure> {
        if self.base_url.trim().is_empty() {
            return Err(Failure::missing("model base URL"));
        }
        // The URL itself is in no message: a password in it is one of the things refused.
        let url = Url::parse(self.base_url.trim())
            .map_err(|error| invalid(format!("the model's base URL cannot be read: {error}")))?;
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            return Err(invalid(
                "the model's base URL must have no user, password or query: use the key or a header",
            ));
        }
        let local = match url.host_str().map(|host| host.trim_matches(['[', ']'])) {
            None => return Err(invalid("the model's base URL must name a host")),
            Some("localhost") => true,
            Some(host) => host
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback()),
        };
        let secret = self.api_key.is_some() || !self.extra_headers.is_empty();
        match url.scheme() {
            "https" => {}
            "http" if local || !secret || self.allow_insecure_http => {}
            "http" => {
                return Err(invalid(
                    "the model's key would travel over plain HTTP: use https, or allow insecure HTTP",
                ));
            }
            other => {
                return Err(invalid(format!(
                    "the model's base URL must be https or http, not {other}"
                )));
            }
        }
        Ok(format!(
            "{}/chat/completions",
            url.as_str().trim_end_matches('/')
        ))
    }

    fn headers(&self) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        if let Some(key) = self.key() {
            if key.is_empty() {
                return Err(Failure::missing("model key"));
            }
            let value = sensitive("key", &format!("Bearer {key}"))?;
            headers.insert(AUTHORIZATION, value);
        }
        for (name, value) in &self.extra_headers {
            let value = sensitive(name, value.expose_secret())?;
            let name = HeaderName::try_from(name.as_str())
                .map_err(|_| invalid(format!("{name:?} is no name of a header")))?;
            headers.insert(name, value);
        }
        Ok(headers)
    }
}

/// What follows from a configuration that holds.
pub(super) struct Endpoint {
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) cleaner: Cleaner,
}

fn sensitive(name: &str, value: &str) -> Result<HeaderValue, Failure> {
    let value = HeaderValue::try_from(value);
    let mut value = value.map_err(|_| {
        invalid(format!(
            "the model's {name} has characters that no header may have"
        ))
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Config, "invalid", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_key(base_url: &str) -> OpenAiConfig {
        OpenAiConfig {
            api_key: Some("sk-canary-1234".into()),
            ..OpenAiConfig::new(base_url, "m")
        }
    }

    #[test]
    fn a_good_configuration_gives_the_address_and_a_hidden_header() {
        for base in ["https://api.openai.com/v1", "https://api.openai.com/v1/"] {
            let endpoint = with_key(base).check().expect("good");
            assert_eq!(endpoint.url, "https://api.openai.com/v1/chat/completions");
            assert!(endpoint.headers[AUTHORIZATION].is_sensitive());
            assert!(!format!("{:?}", endpoint.headers).contains("canary"));
        }
        let config = with_key("https://api.openai.com/v1");
        assert_eq!(config.max_tokens_field, MaxTokensField::MaxCompletionTokens);
        assert!(!format!("{config:?}").contains("canary"));
    }

    #[test]
    fn a_key_goes_over_plain_http_only_to_this_machine_or_by_permission() {
        for local in [
            "http://localhost:1234/v1",
            "http://127.0.0.1/v1",
            "http://[::1]:8080",
        ] {
            assert!(with_key(local).check().is_ok(), "{local}");
        }
        let remote = with_key("http://models.example/v1");
        let failure = remote.check().err().expect("refused");
        assert!(failure.message.contains("plain HTTP"), "{failure}");
        let allowed = OpenAiConfig {
            allow_insecure_http: true,
            ..remote.clone()
        };
        assert!(allowed.check().is_ok());
        let keyless = OpenAiConfig {
            api_key: None,
            ..remote
        };
        assert!(keyless.check().is_ok());
    }

    #[test]
    fn what_is_missing_or_wrong_is_named_and_the_key_is_not() {
        let key = |key: &str| OpenAiConfig {
            api_key: Some(key.into()),
            ..OpenAiConfig::new("https://h/v1", "m")
        };
        let header = |name: &str, value: &str| OpenAiConfig {
            extra_headers: vec![(name.to_owned(), value.into())],
            ..OpenAiConfig::new("https://h/v1", "m")
        };
        let cases = [
            (OpenAiConfig::new("https://h/v1", " "), "missing model name"),
            (OpenAiConfig::new("", "m"), "missing model base URL"),
            (key(" \n"), "missing model key"),
            (key("canary\u{1}canary"), "characters"),
            (header("a b", "canary-value"), "\"a b\""),
            (header("x-key", "canary\nvalue"), "x-key"),
            (OpenAiConfig::new("file:///canary", "m"), "host"),
            (OpenAiConfig::new("ftp://h/canary", "m"), "ftp"),
            (
                OpenAiConfig::new("https://canary:canary@h/", "m"),
                "password",
            ),
            (OpenAiConfig::new("https://h/?key=canary", "m"), "query"),
            (OpenAiConfig::new("canary", "m"), "base URL"),
        ];
        for (config, expected) in cases {
            let failure = config.check().err().expect("refused");
            assert_eq!(failure.kind, FailureKind::Config);
            assert!(failure.message.contains(expected), "{failure}");
            assert!(
                !format!("{failure} {failure:?}").contains("canary"),
                "{failure}"
            );
        }
        assert!(key("sk-canary-1234\n").check().is_ok());
    }
}
