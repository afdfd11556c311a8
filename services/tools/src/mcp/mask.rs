//! Values of the settings in what a server says: a key that it repeats must not reach a model or a journal.

use super::config::ServerConfig;
use super::setting::Setting;
use crate::error::ToolError;
use crate::tool::Output;
use cairn_http::Url;
use std::collections::BTreeMap;

/// Shown in place of a secret, as for the keys of models.
pub(super) const REPLACEMENT: &str = "[secret]";
/// What is shorter would be found in many texts.
const SHORTEST: usize = 8;

/// The secrets of a server's settings, the longest first: one may be a part of another.
#[derive(Default)]
pub(crate) struct Mask(Vec<String>);

impl Mask {
    /// The secrets of a server. `environment` is the process's. What cannot be resolved is not sent either.
    pub(crate) fn of(config: &ServerConfig, environment: &BTreeMap<String, String>) -> Self {
        let mut secrets = Vec::new();
        let resolve = |setting: &Setting| setting.resolve(environment).ok();
        for header in config.headers.values().filter_map(resolve) {
            // As a scheme stands before it.
            let token = header
                .value
                .split_once(' ')
                .map(|(_, token)| token.to_owned());
            secrets.extend(token);
            secrets.extend(header.secrets);
            secrets.push(header.value);
        }
        for variable in config.env.values().filter_map(resolve) {
            secrets.extend(variable.secrets.iter().filter_map(|it| password(it)));
            secrets.extend(variable.referred.into_iter().filter(|it| !is_place(it)));
            let literal = variable.secrets.into_iter();
            secrets.extend(literal.filter(|it| !is_place(it) && !is_word(it)));
        }
        // Variables in arguments are mostly names of something.
        let values = config.values.iter().cloned();
        secrets.extend(values.filter(|it| !is_place(it) && !is_word(it)));
        Self::of_secrets(secrets)
    }

    /// Hides these.
    pub(crate) fn of_secrets(mut secrets: Vec<String>) -> Self {
        // In a JSON text within a text.
        let escaped: Vec<String> = secrets.iter().filter_map(|it| escaped(it)).collect();
        secrets.extend(escaped);
        secrets.retain(|secret| secret.len() >= SHORTEST);
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self(secrets)
    }

    /// The text with each secret replaced.
    pub(crate) fn text(&self, mut text: String) -> String {
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), REPLACEMENT);
            }
        }
        text
    }

    /// What a call came to, without secrets. The state of a question goes back to the server as it is.
    pub(crate) fn result(&self, result: Result<Output, ToolError>) -> Result<Output, ToolError> {
        match result {
            Ok(mut output) => {
                output.text = self.text(output.text);
                for media in &mut output.media {
                    media.name = self.text(std::mem::take(&mut media.name));
                }
                Ok(output)
            }
            Err(ToolError::InputRequired(mut asked)) => {
                asked.requests = self.text(asked.requests);
                Err(ToolError::InputRequired(asked))
            }
            Err(error) => Err(error.map_message(|message| self.text(message))),
        }
    }
}

/// A path or an address, which results name again and again.
fn is_place(value: &str) -> bool {
    value.starts_with(['/', '.', '~']) || value.contains("://")
}

/// A value without a digit, such as `production`.
fn is_word(value: &str) -> bool {
    !value.bytes().any(|byte| byte.is_ascii_digit())
}

/// The password of an address.
fn password(value: &str) -> Option<String> {
    let url = Url::parse(value).ok()?;
    url.password().map(str::to_owned)
}

/// The text as JSON writes it, if that is another one.
fn escaped(value: &str) -> Option<String> {
    let json = serde_json::Value::from(value).to_string();
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    (inner != value).then(|| inner.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_words_and_places_are_not() {
        let environment = [
            ("TOKEN", "correct-horse"),
            ("HOME", "/home/someone"),
            ("STORE", "postgres://user:pass-word-1@db.example.com/x"),
            ("QUOTED", "one\"two\"three"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let setting = |(name, value): (&str, &str)| (name.to_owned(), Setting::new(value));
        let program = ServerConfig {
            env: [
                ("A", "env:TOKEN"),
                ("B", "env:HOME"),
                ("C", "env:STORE"),
                ("D", "env:QUOTED"),
                ("E", "ghp_0123456789"),
                ("F", "production"),
                ("G", "short1"),
                ("H", "env:NOT_SET"),
            ]
            .map(setting)
            .into(),
            ..ServerConfig::default()
        };
        let address = ServerConfig {
            headers: [("authorization", "Bearer abcdefgh"), ("x-key", "a b c d e")]
                .map(setting)
                .into(),
            ..ServerConfig::default()
        };
        let file = ServerConfig {
            values: ["sk-canary-1", "customers", "/srv/data-1"]
                .map(str::to_owned)
                .into(),
            ..ServerConfig::default()
        };
        for (config, text, expected) in [
            (&file, "sk-canary-1 of customers", "[secret] of customers"),
            (&file, "/srv/data-1/a.txt", "/srv/data-1/a.txt"),
            (&program, "correct-horse", "[secret]"),
            (&program, "/home/someone/a.txt", "/home/someone/a.txt"),
            (&program, "pass-word-1 at db", "[secret] at db"),
            (&program, "one\"two\"three", "[secret]"),
            (
                &program,
                r#"{"key":"one\"two\"three"}"#,
                r#"{"key":"[secret]"}"#,
            ),
            (&program, "ghp_0123456789", "[secret]"),
            (&program, "production short1", "production short1"),
            (&address, "Bearer abcdefgh, abcdefgh", "[secret], [secret]"),
            (&address, "a b c d e", "[secret]"),
        ] {
            let mask = Mask::of(config, &environment.clone().into());
            assert_eq!(mask.text(text.to_owned()), expected);
        }
    }
}
