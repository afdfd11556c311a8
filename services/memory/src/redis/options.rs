//! How a store on Redis is opened.

use super::address::{ClientCertificate, RedisUrl};
use super::format::Formats;
use crate::port::Limits;
#[cfg(any(test, feature = "conformance"))]
use cairn_rpc::Clock;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
#[cfg(any(test, feature = "conformance"))]
use std::sync::Arc;
use std::time::Duration;

/// Which servers there are, and how they are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RedisMode {
    /// One server.
    #[default]
    Standalone,
    /// A master that the sentinels at `urls` know.
    Sentinel,
    /// A cluster that some servers at `urls` belong to.
    Cluster,
}

/// A store on Redis 7 or later, as it is configured.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisConfig {
    /// The server; the sentinels; some of a cluster's servers.
    pub urls: Vec<RedisUrl>,
    /// Which servers there are.
    #[serde(default)]
    pub mode: RedisMode,
    /// The name by which sentinels know the master.
    #[serde(default)]
    pub master: Option<String>,
    /// The address of the master, of which sentinels tell only the place: its user, password and
    /// whether it speaks TLS. Without it those of the sentinels hold.
    #[serde(default)]
    pub master_url: Option<RedisUrl>,
    /// What the names of all keys begin with.
    #[serde(default = "default_prefix")]
    pub prefix: String,
    /// Certificates, as PEM, that servers are trusted by in place of the usual ones.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// What is shown to servers that ask who connects.
    #[serde(default)]
    pub client_certificate: Option<ClientCertificate>,
    /// Whether a server whose settings do not keep what was answered is refused.
    #[serde(default)]
    pub require_durable: bool,
    /// Whether a server that others can reach without a password is taken.
    #[serde(default)]
    pub allow_exposed: bool,
}

fn default_prefix() -> String {
    "cairn".to_owned()
}

impl RedisConfig {
    /// One server, and the defaults.
    pub fn standalone(url: impl Into<RedisUrl>) -> Self {
        Self {
            urls: vec![url.into()],
            mode: RedisMode::Standalone,
            master: None,
            master_url: None,
            prefix: default_prefix(),
            ca_file: None,
            client_certificate: None,
            require_durable: false,
            allow_exposed: false,
        }
    }
}

/// How a store is opened, apart from where it is.
#[derive(Clone)]
pub struct RedisOptions {
    /// How large things may get.
    pub limits: Limits,
    /// Which of several sessions of equal standing is claimed first, and how this opening is
    /// called among others, follow from it. Two stores with the same seed must not be open at once.
    pub seed: u64,
    /// How often the servers' settings are looked at while the store is open, besides when a server
    /// is another than it was or a call failed, and each second until all is well then.
    pub look_again: Duration,
    /// Called around each script that makes an owner's transition, a creation, a command or a document durable.
    #[cfg(debug_assertions)]
    pub commit_hook: Option<crate::fail_point::CommitHook>,
    /// Checks that the store does without.
    #[cfg(debug_assertions)]
    pub sabotage: crate::sabotage::Sabotage,
    /// Takes the place of the server's time.
    #[cfg(any(test, feature = "conformance"))]
    pub clock: Option<Arc<dyn Clock>>,
    /// Takes the place of the formats that this program knows.
    #[cfg(any(test, feature = "conformance"))]
    pub formats: Formats,
}

impl RedisOptions {
    #[cfg_attr(
        not(any(test, feature = "conformance")),
        allow(clippy::unused_self, reason = "only tests have other formats")
    )]
    pub(super) fn formats(&self) -> Formats {
        #[cfg(any(test, feature = "conformance"))]
        return self.formats;
        #[cfg(not(any(test, feature = "conformance")))]
        Formats::KNOWN
    }
}

impl Default for RedisOptions {
    /// The seed is random.
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            seed: RandomState::new().hash_one(std::process::id()),
            look_again: Duration::from_secs(60),
            #[cfg(debug_assertions)]
            commit_hook: None,
            #[cfg(debug_assertions)]
            sabotage: crate::sabotage::Sabotage::default(),
            #[cfg(any(test, feature = "conformance"))]
            clock: None,
            #[cfg(any(test, feature = "conformance"))]
            formats: Formats::KNOWN,
        }
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("limits", &self.limits)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
