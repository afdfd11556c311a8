//! `[tools.web_search]`: where searches go.

use crate::error::Fault;
use crate::mcp::Setting;
use cairn_http::{Url, is_loopback};
use serde::{Deserialize, Serialize};

/// What the address can be.
const ADDRESS: &str =
    "an address with http:// or https:// and without a user, such as http://127.0.0.1:8888/search";
/// What the key can be.
const KEY: &str = "a reference: env:NAME or file:PATH";

/// The provider that `web_search` asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebSearchConfig {
    /// The address of its search, which answers as the JSON of a SearXNG does.
    pub url: String,
    /// What it wants with each request, as `env:NAME` or `file:PATH`. Read at each search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Setting>,
    /// The header that has the key as it is. Without one, the key is a bearer token in `authorization`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_header: Option<String>,
}

impl WebSearchConfig {
    /// The address.
    ///
    /// # Errors
    /// Why it cannot be used, in words that follow the setting's name.
    pub(crate) fn address(&self) -> Result<Url, &'static str> {
        let url = Url::parse(&self.url).map_err(|_| "is no address")?;
        let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
        let has_user = !url.username().is_empty() || url.password().is_some();
        match (is_web, has_user) {
            (true, false) => Ok(url),
            (true, true) => Err("has a user in it"),
            (false, _) => Err("is no address of the web"),
        }
    }

    pub(super) fn validate(&self, faults: &mut Vec<Fault>) {
        let mut fault = |field: &str, problem: &str, allowed: &str| {
            faults.push(Fault::new(format!("web_search.{field}"), problem, allowed));
        };
        let address = self.address();
        if let Err(problem) = address {
            fault("url", problem, ADDRESS);
        }
        if let Some(header) = &self.key_header {
            if http::HeaderName::from_bytes(header.as_bytes()).is_err() {
                fault(
                    "key_header",
                    "is no name of a header",
                    "a name such as x-api-key",
                );
            }
            if self.key.is_none() {
                fault(
                    "key_header",
                    "is given without a key",
                    "a key, too, or neither",
                );
            }
        }
        let Some(key) = &self.key else {
            return;
        };
        if key.references().next().is_none() {
            fault("key", "is a value, and files of settings are shown", KEY);
        } else if let Some(problem) = key.fault() {
            fault("key", &problem, KEY);
        }
        let host = address.as_ref().ok().and_then(Url::host_str);
        let is_plain = |url: &Url| url.scheme() == "http";
        if address.as_ref().is_ok_and(is_plain) && !host.is_some_and(is_loopback) {
            let allowed = "https://, or http:// to this machine";
            fault("url", "would get the key over plain HTTP", allowed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(url: &str, key: Option<&str>, key_header: Option<&str>) -> Vec<String> {
        let config = WebSearchConfig {
            url: url.to_owned(),
            key: key.map(Setting::new),
            key_header: key_header.map(str::to_owned),
        };
        let mut faults = Vec::new();
        config.validate(&mut faults);
        faults.iter().map(|fault| fault.field.clone()).collect()
    }

    #[test]
    fn a_provider_is_an_address_and_a_key_is_a_reference() {
        let (here, far) = (
            "http://127.0.0.1:8888/search",
            "https://s.example/search?x=1",
        );
        assert_eq!(faults(here, None, None), [""; 0]);
        assert_eq!(faults(here, Some("env:KEY"), None), [""; 0]);
        assert_eq!(faults(far, Some("file:/key"), Some("x-key")), [""; 0]);
        assert_eq!(faults("http://searxng:8080/search", None, None), [""; 0]);
        for url in [
            "",
            "s.example",
            "ftp://s.example/",
            "https://me:pw@s.example/",
        ] {
            assert_eq!(faults(url, None, None), ["web_search.url"], "{url}");
        }
        let plain = "http://searxng:8080/search";
        assert_eq!(faults(plain, Some("env:KEY"), None), ["web_search.url"]);
        for key in ["secret", "env:", "env:A B", "file:"] {
            assert_eq!(faults(here, Some(key), None), ["web_search.key"], "{key}");
        }
        assert_eq!(faults(here, None, Some("x-key")), ["web_search.key_header"]);
        let header = faults(here, Some("env:KEY"), Some("x key"));
        assert_eq!(header, ["web_search.key_header"]);
    }
}
