//! Settings of a model behind HTTP, and their check.

use super::{Dialect, OptionalField};
use crate::clean::Cleaner;
use crate::prices::Prices;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::limits::MAX_REPLY;
use cairn_http::{Proxies, Url, is_loopback};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use std::time::Duration;

/// Where a model is and how it is called, whatever its provider. Neither `Debug` nor any error
/// shows the key or the value of an extra header.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The address up to and without the provider's own path, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The model's name at the server.
    pub model: String,
    /// Sent in the provider's own header; local servers often need none.
    pub api_key: Option<SecretString>,
    /// Headers sent besides; they are taken for secrets too.
    pub extra_headers: Vec<(String, SecretString)>,
    /// Longest time for a connection to stand.
    pub connect_timeout: Duration,
    /// Longest time from the question to the first piece of a streamed reply.
    pub first_byte_timeout: Duration,
    /// Longest silence between two pieces of a streamed reply.
    pub idle_timeout: Duration,
    /// Longest time for a reply, streamed or not.
    pub total_timeout: Duration,
    /// Most bytes of a reply, streamed or not: its text, the ids, names and arguments of its calls,
    /// and the thinking that the provider wants back. How many bytes may travel for it follows from this.
    pub max_reply_bytes: u64,
    /// Tokens that fit into one conversation.
    pub window_tokens: u64,
    /// Most tokens that a reply may have; a call may ask for less.
    pub max_output_tokens: Option<u32>,
    /// The model sees, so it is sent pictures and documents. Without a word the list of
    /// [`crate::prices`] counts, if the base URL is the provider's own; a model that is not in it is
    /// taken for one that does not see.
    pub vision: Option<bool>,
    /// Whether a reply may ask for several calls of tools; without a word, the server's own default.
    pub parallel_tool_calls: Option<bool>,
    /// Fields that the server is not sent. A field that it refuses by name joins them by itself.
    pub omit: Vec<OptionalField>,
    /// What the model costs. Without them the list of [`crate::prices`] counts, if the base URL is
    /// the provider's own; a model that is not in it has no known price.
    pub prices: Option<Prices>,
    /// Allow the key to travel over plain HTTP to another machine, where anybody on the way can
    /// read it.
    pub allow_insecure_http: bool,
    /// The proxies that requests go through.
    pub proxies: Proxies,
}

const BASE_URL: &str = "base_url";
const KEY: &str = "api_key";
const HEADERS: &str = "headers";

impl ServerConfig {
    /// Settings for `model` at `base_url`: no key, a window of 128,000 tokens, prices and vision as listed,
    /// 10 s to connect, 5 minutes to the first piece, 2 minutes of silence, 10 minutes for a reply,
    /// 1 MiB.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            model: model.into(),
            api_key: None,
            extra_headers: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(300),
            idle_timeout: Duration::from_secs(120),
            total_timeout: Duration::from_secs(600),
            max_reply_bytes: MAX_REPLY as u64,
            window_tokens: 128_000,
            max_output_tokens: None,
            vision: None,
            parallel_tool_calls: None,
            omit: Vec::new(),
            prices: None,
            allow_insecure_http: false,
            proxies: Proxies::default(),
        }
    }

    pub(crate) fn is_at(&self, host: &str) -> bool {
        Url::parse(self.base_url.trim()).is_ok_and(|url| url.host_str() == Some(host))
    }

    pub(super) fn check(&self, dialect: &Dialect) -> Result<Endpoint, Failure> {
        if self.model.trim().is_empty() {
            return Err(invalid("model", "missing model name"));
        }
        let url = self.check_url()?;
        let headers = self.headers(dialect)?;
        let secrets = self.extra_headers.iter().map(|(_, value)| value.clone());
        Ok(Endpoint {
            host: url.host_str().unwrap_or_default().to_owned(),
            url: format!("{}{}", url.as_str().trim_end_matches('/'), dialect.path),
            headers,
            cleaner: Cleaner::new(secrets.chain(self.key().map(SecretString::from))),
        })
    }

    /// The key without the line end that a file or a shell may have left on it.
    fn key(&self) -> Option<&str> {
        self.api_key.as_ref().map(|key| key.expose_secret().trim())
    }

    fn check_url(&self) -> Result<Url, Failure> {
        if self.base_url.trim().is_empty() {
            return Err(invalid(BASE_URL, "missing model base URL"));
        }
        // The URL itself is in no message: a password in it is one of the things refused.
        let url = Url::parse(self.base_url.trim()).map_err(|error| {
            invalid(
                BASE_URL,
                format!("the model's base URL cannot be read: {error}"),
            )
        })?;
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            return Err(invalid(
                BASE_URL,
                "the model's base URL must have no user, password or query: use the key or a header",
            ));
        }
        let Some(host) = url.host_str() else {
            return Err(invalid(BASE_URL, "the model's base URL must name a host"));
        };
        let local = is_loopback(host);
        let secret = self.api_key.is_some() || !self.extra_headers.is_empty();
        match url.scheme() {
            "https" => {}
            "http" if local || !secret || self.allow_insecure_http => {}
            "http" => {
                return Err(invalid(
                    BASE_URL,
                    "the model's key would travel over plain HTTP: use https, or allow insecure HTTP",
                ));
            }
            other => {
                let message = format!("the model's base URL must be https or http, not {other}");
                return Err(invalid(BASE_URL, message));
            }
        }
        Ok(url)
    }

    fn headers(&self, dialect: &Dialect) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        if let Some(key) = self.key() {
            if key.is_empty() {
                return Err(invalid(KEY, "missing model key"));
            }
            let (name, value) = (dialect.key_header)(key);
            headers.insert(name, sensitive(KEY, "key", &value)?);
        }
        for (name, value) in &self.extra_headers {
            let value = sensitive(HEADERS, name, value.expose_secret())?;
            let name = HeaderName::try_from(name.as_str())
                .map_err(|_| invalid(HEADERS, format!("{name:?} is no name of a header")))?;
            headers.insert(name, value);
        }
        Ok(headers)
    }
}

/// What follows from a configuration that holds.
pub(super) struct Endpoint {
    pub(super) url: String,
    pub(super) host: String,
    pub(super) headers: HeaderMap,
    pub(super) cleaner: Cleaner,
}

fn sensitive(setting: &str, name: &str, value: &str) -> Result<HeaderValue, Failure> {
    let value = HeaderValue::try_from(value);
    let mut value = value.map_err(|_| {
        let message = format!("the model's {name} has characters that no header may have");
        invalid(setting, message)
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// The reason names the setting, for those who show where it is.
fn invalid(setting: &str, message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Config, setting, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openai::DIALECT;
    use http::header::AUTHORIZATION;

    fn with_key(base_url: &str) -> ServerConfig {
        ServerConfig {
            api_key: Some("sk-canary-1234".into()),
            ..ServerConfig::new(base_url, "m")
        }
    }

    #[test]
    fn a_good_configuration_gives_the_address_and_a_hidden_header() {
        for base in ["https://api.openai.com/v1", "https://api.openai.com/v1/"] {
            let endpoint = with_key(base).check(&DIALECT).expect("good");
            assert_eq!(endpoint.url, "https://api.openai.com/v1/chat/completions");
            assert!(endpoint.headers[AUTHORIZATION].is_sensitive());
            assert!(!format!("{:?}", endpoint.headers).contains("canary"));
        }
        let config = with_key("https://api.openai.com/v1");
        assert!(!format!("{config:?}").contains("canary"));
    }

    #[test]
    fn a_key_goes_over_plain_http_only_to_this_machine_or_by_permission() {
        for local in [
            "http://localhost:1234/v1",
            "http://127.0.0.1/v1",
            "http://[::1]:8080",
        ] {
            assert!(with_key(local).check(&DIALECT).is_ok(), "{local}");
        }
        let remote = with_key("http://models.example/v1");
        let failure = remote.check(&DIALECT).err().expect("refused");
        assert!(failure.message.contains("plain HTTP"), "{failure}");
        let allowed = ServerConfig {
            allow_insecure_http: true,
            ..remote.clone()
        };
        assert!(allowed.check(&DIALECT).is_ok());
        let keyless = ServerConfig {
            api_key: None,
            ..remote
        };
        assert!(keyless.check(&DIALECT).is_ok());
    }

    #[test]
    fn what_is_missing_or_wrong_is_named_and_the_key_is_not() {
        let key = |key: &str| ServerConfig {
            api_key: Some(key.into()),
            ..ServerConfig::new("https://h/v1", "m")
        };
        let header = |name: &str, value: &str| ServerConfig {
            extra_headers: vec![(name.to_owned(), value.into())],
            ..ServerConfig::new("https://h/v1", "m")
        };
        let cases = [
            (ServerConfig::new("https://h/v1", " "), "missing model name"),
            (ServerConfig::new("", "m"), "missing model base URL"),
            (key(" \n"), "missing model key"),
            (key("canary\u{1}canary"), "characters"),
            (header("a b", "canary-value"), "\"a b\""),
            (header("x-key", "canary\nvalue"), "x-key"),
            (ServerConfig::new("file:///canary", "m"), "host"),
            (ServerConfig::new("ftp://h/canary", "m"), "ftp"),
            (
                ServerConfig::new("https://canary:canary@h/", "m"),
                "password",
            ),
            (ServerConfig::new("https://h/?key=canary", "m"), "query"),
            (ServerConfig::new("canary", "m"), "base URL"),
        ];
        for (config, expected) in cases {
            let failure = config.check(&DIALECT).err().expect("refused");
            assert_eq!(failure.kind, FailureKind::Config);
            assert!(failure.message.contains(expected), "{failure}");
            assert!(
                !format!("{failure} {failure:?}").contains("canary"),
                "{failure}"
            );
        }
        assert!(key("sk-canary-1234\n").check(&DIALECT).is_ok());
    }
}
