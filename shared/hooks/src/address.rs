//! The addresses at which clients may store hooks.

use crate::HostUrl;
use std::fmt;

/// A pattern of addresses of services: a scheme, a host and a port. A label of the host that is `*` stands for any one
/// label, and a port that is `*` for any port. Without a port it is the one of the scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressPattern(Parts);

/// The parts of an address, or of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Parts {
    is_tls: bool,
    /// In lower case; an address of version 6 with its brackets.
    host: String,
    /// None for any.
    port: Option<u16>,
}

impl AddressPattern {
    /// None for a text that is no pattern.
    pub fn new(text: &str) -> Option<Self> {
        let parts = Parts::new(text)?;
        let is_label = |label: &str| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            label == "*" || (!label.is_empty() && label.chars().all(is_part))
        };
        let is_host = match parts.version_6() {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => parts.host.split('.').all(is_label),
        };
        is_host.then_some(Self(parts))
    }

    /// It stands for this address of a service.
    pub fn matches(&self, url: &str) -> bool {
        // As the address is called, whatever its text looks like.
        let Ok(url) = url.parse::<HostUrl>() else {
            return false;
        };
        let Some(address) = Parts::new(&url.to_string()) else {
            return false;
        };
        let Self(pattern) = self;
        let has_port = pattern.port.is_none() || pattern.port == address.port;
        pattern.is_tls == address.is_tls && has_port && pattern.has_host(&address)
    }
}

impl Parts {
    fn new(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let is_tls = match scheme {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (rest, None),
        };
        let port = match port {
            None => Some(if is_tls { 443 } else { 80 }),
            Some("*") => None,
            Some(port) => Some(port.parse().ok().filter(|port| *port > 0)?),
        };
        let host = host.to_ascii_lowercase();
        (!host.is_empty()).then_some(Self { is_tls, host, port })
    }

    /// The address of version 6 that the host is.
    fn version_6(&self) -> Option<&str> {
        self.host.strip_prefix('[')?.strip_suffix(']')
    }

    fn has_host(&self, address: &Self) -> bool {
        if self.version_6().is_some() || address.version_6().is_some() {
            return self.host == address.host;
        }
        let (own, other) = (self.host.split('.'), address.host.split('.'));
        own.clone().count() == other.clone().count()
            && own
                .zip(other)
                .all(|(own, other)| own == "*" || own == other)
    }
}

impl fmt::Display for AddressPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Parts { is_tls, host, port }) = self;
        let scheme = if *is_tls { "https" } else { "http" };
        match port {
            Some(port) => write!(f, "{scheme}://{host}:{port}"),
            None => write!(f, "{scheme}://{host}:*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> AddressPattern {
        AddressPattern::new(text).unwrap()
    }

    #[test]
    fn a_star_stands_for_one_label_or_for_the_port() {
        for (text, matched, others) in [
            (
                "https://hooks.example.org:*",
                vec![
                    "https://hooks.example.org:8443",
                    "https://hooks.example.org",
                    "https://HOOKS.example.org:1/",
                ],
                vec![
                    "http://hooks.example.org:8443",
                    "https://example.org:8443",
                    "https://hooks.example.org.evil.org:8443",
                ],
            ),
            (
                "https://*.example.org",
                vec!["https://a.example.org:443", "https://b.example.org"],
                vec![
                    "https://a.b.example.org",
                    "https://example.org",
                    "https://a.example.org:8443",
                ],
            ),
            (
                "http://127.0.0.1:9000",
                vec!["http://127.0.0.1:9000"],
                vec!["http://127.0.0.1:9001", "http://127.0.0.2:9000"],
            ),
            (
                "http://[::1]:*",
                vec!["http://[::1]:9000"],
                vec!["http://[::2]:9000"],
            ),
        ] {
            for url in matched {
                assert!(pattern(text).matches(url), "{text} {url}");
            }
            for url in others {
                assert!(!pattern(text).matches(url), "{text} {url}");
            }
        }
        assert!(!pattern("http://*:*").matches("http://[::1]:9000"));
        assert!(!pattern("http://*:*").matches("unix:/run/hook.sock"));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in [
            "",
            "*",
            "hooks.example.org:1",
            "ftp://hooks.example.org:1",
            "https://",
            "https://a..b:1",
            "https://ho*st:1",
            "https://u@h:1",
            "https://h:0",
            "https://h:70000",
            "https://h:1/path",
            "https://[a.b]:1",
        ] {
            assert!(AddressPattern::new(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_pattern_is_shown_with_its_port() {
        assert_eq!(
            pattern("https://*.Example.org").to_string(),
            "https://*.example.org:443"
        );
        assert_eq!(pattern("http://[::1]:*").to_string(), "http://[::1]:*");
    }
}
