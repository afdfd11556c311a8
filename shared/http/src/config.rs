//! What a client may do, and for how long.

use crate::Proxies;
use std::time::Duration;

/// Limits and name of an HTTP client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpConfig {
    /// Longest time for a connection to stand, name lookup and TLS included.
    pub connect_timeout: Duration,
    /// Longest time from sending the request to the answer's last byte.
    pub total_timeout: Option<Duration>,
    /// Longest time from sending the request to the first piece of the answer's body, connecting
    /// included; without it the limit on silence holds there too.
    pub first_byte_timeout: Option<Duration>,
    /// Longest silence: until the answer begins, and between two pieces of it.
    pub idle_timeout: Option<Duration>,
    /// How the client names itself.
    pub user_agent: String,
    /// Most bytes of an answer's body, counted after decompression.
    pub max_response_bytes: u64,
    /// The proxies that requests go through.
    pub proxies: Proxies,
}

impl Default for HttpConfig {
    /// 10 s to connect, 60 s in all, no limit on silence of its own, 16 MiB, no proxies.
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            total_timeout: Some(Duration::from_secs(60)),
            first_byte_timeout: None,
            idle_timeout: None,
            user_agent: concat!("cairn/", env!("CARGO_PKG_VERSION")).to_owned(),
            max_response_bytes: 16 * 1024 * 1024,
            proxies: Proxies::default(),
        }
    }
}
