//! Where sessions are stored: in a file of this machine, or on Redis.

use crate::error::CliError;
use cairn_boot::config::duration;
use cairn_boot::{Checks, Secret};
use cairn_memory::StoreConfig;
use cairn_memory::redis::{ClientCertificate, RedisConfig, RedisMode, RedisUrl};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where sessions are stored.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreSettings {
    /// The file; it is made with its folder when it is first written to. Without a setting it is one of the
    /// workspace's own in the user's state folder, or none if the environment names no such folder.
    pub path: Option<PathBuf>,
    /// Whether the file is the workspace's own.
    #[serde(skip)]
    pub is_of_workspace: bool,
    /// Most pages of 4 KiB that it may have.
    pub max_pages: Option<u32>,
    /// How long finished sessions are kept.
    pub retention: RetentionSettings,
    /// Servers that take the place of the file.
    pub redis: RedisSettings,
}

/// What becomes of sessions that have been idle for long: those without a run that continues or waits.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RetentionSettings {
    /// They are deleted whole, with their memory, so long after their last change. Without it they
    /// stay, but for those with a time to live of their own.
    #[serde(with = "cairn_boot::config::duration::optional")]
    pub after: Option<Duration>,
    /// The sessions are written to this folder first, as NAMESPACE/SESSION.jsonl. `cairn import`
    /// reads such a file back.
    pub archive: Option<PathBuf>,
}

/// Servers of Redis 7 or later.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct RedisSettings {
    /// `redis://[user:password@]host:port`, or `rediss://` with TLS; several, of sentinels or of a
    /// cluster, with commas between them. None: sessions are in the file.
    pub url: Secret,
    /// Which servers there are.
    pub mode: RedisMode,
    /// The name by which sentinels know the master.
    pub master: Option<String>,
    /// User, password and TLS of the master, if they are not those of the sentinels: an address
    /// like `url`, of which the place does not count.
    pub master_url: Secret,
    /// What the names of all keys begin with.
    pub prefix: String,
    /// Certificates, as PEM, that servers are trusted by in place of the usual ones.
    pub ca_file: Option<PathBuf>,
    /// A certificate for servers that ask who connects, as PEM, and those between it and its
    /// authority's.
    pub cert_file: Option<PathBuf>,
    /// The private key of `cert_file`, as PEM.
    pub key_file: Option<PathBuf>,
    /// Refuse servers whose settings do not keep what was answered.
    pub require_durable: bool,
    /// Take a server that others can reach without a password.
    pub allow_exposed: bool,
}

impl Default for RedisSettings {
    fn default() -> Self {
        Self {
            url: Secret::default(),
            mode: RedisMode::Standalone,
            master: None,
            master_url: Secret::default(),
            prefix: "cairn".to_owned(),
            ca_file: None,
            cert_file: None,
            key_file: None,
            require_durable: false,
            allow_exposed: false,
        }
    }
}

impl StoreSettings {
    /// Whether sessions are on Redis.
    pub fn is_redis(&self) -> bool {
        self.redis.url.is_set()
    }

    /// The file.
    ///
    /// # Errors
    /// No setting names one, and the environment names no place for one.
    pub fn file(&self) -> Result<&Path, CliError> {
        self.path.as_deref().ok_or_else(|| {
            let message = "there is no place for the store: neither XDG_STATE_HOME nor HOME names an \
                           absolute path";
            CliError::usage(message).hint("name its file with --store or CAIRN_STORE")
        })
    }

    /// The same, as the memory service is told. A process that has memory looks for its [`file`](Self::file)
    /// before.
    pub fn config(&self) -> StoreConfig {
        if !self.is_redis() {
            return StoreConfig::Sqlite {
                path: self.path.clone().unwrap_or_default(),
            };
        }
        let redis = &self.redis;
        let master_url = Some(&redis.master_url).filter(|url| url.is_set());
        StoreConfig::Redis(RedisConfig {
            urls: redis.urls().map(RedisUrl::from).collect(),
            mode: redis.mode,
            master: redis.master.clone(),
            master_url: master_url.map(|url| RedisUrl::from(url.expose())),
            prefix: redis.prefix.clone(),
            ca_file: redis.ca_file.clone(),
            client_certificate: redis.client_certificate(),
            require_durable: redis.require_durable,
            allow_exposed: redis.allow_exposed,
        })
    }

    /// The ports of the servers that hold the sessions, as far as they are named: none for a file.
    pub(super) fn ports(&self) -> impl Iterator<Item = u16> {
        let master = Some(self.redis.master_url.expose());
        let urls = self.redis.urls().chain(master);
        urls.filter(|url| is_redis_url(url)).map(port)
    }

    /// Where sessions are, for people. Never a password.
    pub fn place(&self) -> String {
        if !self.is_redis() {
            let path = self.path.as_deref();
            return path.map_or_else(|| "no place".to_owned(), |path| path.display().to_string());
        }
        let urls = self.redis.urls().map(RedisUrl::from);
        let urls: Vec<String> = urls.map(|url| format!("{url:?}")).collect();
        urls.join(",")
    }

    pub(super) fn check(&self, checks: &mut Checks) {
        let path = self.path.as_deref().unwrap_or(Path::new("./unset"));
        let is_empty = path.as_os_str().is_empty();
        let file = "a file, such as data/cairn.db";
        checks.require(!is_empty, "store.path", "is empty", file);
        // Sessions in a file that nobody looks for, and a password in its name, would be worse.
        checks.require(
            !is_like_address(&path.to_string_lossy()),
            "store.path",
            "looks like an address, and not one of Redis",
            "redis://host:port, rediss://host:port, or a file; ./NAME for a file of such a name",
        );
        let pages = self.max_pages;
        let enough = pages.is_none_or(|pages| pages >= 256);
        checks.require(enough, "store.max_pages", "is too small", "256 or more");
        self.retention.check(checks);
        self.redis.check(checks);
    }
}

impl RetentionSettings {
    fn check(&self, checks: &mut Checks) {
        if let Some(after) = self.after {
            let allowed = Duration::from_secs(1)..=Duration::from_secs(3650 * 24 * 3600);
            checks.require(
                allowed.contains(&after),
                "store.retention.after",
                &format!("is {}", duration::show(after)),
                "1s to 3650d",
            );
        }
        let archive = self.archive.as_ref();
        let is_empty = archive.is_some_and(|archive| archive.as_os_str().is_empty());
        let folder = "a folder, such as /var/cairn/archive";
        checks.require(!is_empty, "store.retention.archive", "is empty", folder);
    }
}

/// The port of a server whose address names none.
const REDIS_PORT: u16 = 6379;
/// What an address may be.
const ADDRESS: &str = "redis://host:port or rediss://host:port, with user:password@ before the \
                       host, in which / # ? @ and % are percent-encoded; several are whole \
                       addresses with commas between them";

impl RedisSettings {
    fn urls(&self) -> impl Iterator<Item = &str> {
        self.url.expose().split(',').map(str::trim)
    }

    fn check(&self, checks: &mut Checks) {
        let is_set = self.url.is_set();
        checks.require(
            !is_set || self.urls().all(is_redis_url),
            "store.redis.url",
            "is not the address of a Redis server",
            ADDRESS,
        );
        let master = &self.master_url;
        checks.require(
            !master.is_set() || is_redis_url(master.expose()),
            "store.redis.master_url",
            "is not the address of a Redis server",
            ADDRESS,
        );
        let (is_one, sentinels) = (
            self.urls().count() == 1,
            matches!(self.mode, RedisMode::Sentinel),
        );
        let fits = is_one || !matches!(self.mode, RedisMode::Standalone);
        checks.require(
            fits,
            "store.redis.url",
            "names several servers",
            "one, or store.redis.mode = \"sentinel\" or \"cluster\"",
        );
        let named = self.master.as_ref().is_some_and(|name| !name.is_empty());
        checks.require(
            named || !sentinels || !is_set,
            "store.redis.master",
            "is missing",
            "the name by which the sentinels know the master",
        );
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        let prefix = !self.prefix.is_empty() && self.prefix.chars().all(plain);
        checks.require(
            prefix,
            "store.redis.prefix",
            "is not a prefix",
            "letters, digits, and any of - _ . :",
        );
        self.check_files(checks);
    }

    fn check_files(&self, checks: &mut Checks) {
        let urls = self.urls().chain([self.master_url.expose()]);
        let is_tls = urls.into_iter().any(is_tls);
        for (name, file) in [
            ("store.redis.ca_file", &self.ca_file),
            ("store.redis.cert_file", &self.cert_file),
            ("store.redis.key_file", &self.key_file),
        ] {
            let there = file.as_deref().is_none_or(Path::is_file);
            checks.require(there, name, "is not a file", "a PEM file");
            let is_used = file.is_none() || is_tls || !self.url.is_set();
            checks.require(is_used, name, "is of no use without TLS", "with rediss://");
        }
        let (cert, key) = (self.cert_file.is_some(), self.key_file.is_some());
        let why = "is missing beside the other one of the two";
        let both = "cert_file and key_file, or neither";
        checks.require(cert || !key, "store.redis.cert_file", why, both);
        checks.require(key || !cert, "store.redis.key_file", why, both);
    }

    fn client_certificate(&self) -> Option<ClientCertificate> {
        Some(ClientCertificate {
            cert_file: self.cert_file.clone()?,
            key_file: self.key_file.clone()?,
        })
    }
}

/// Whether it is the address of a server and not a file.
pub(super) fn is_redis_url(text: &str) -> bool {
    scheme(text).is_some_and(|it| ["redis", "rediss"].iter().any(|name| is_same(name, it)))
}

/// The port of a server. A user and a password stand before an `@`, which neither has in it.
fn port(url: &str) -> u16 {
    let (_, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let place = authority
        .rsplit_once('@')
        .map_or(authority, |(_, place)| place);
    let port = place
        .rsplit_once(':')
        .and_then(|(_, port)| port.parse().ok());
    port.unwrap_or(REDIS_PORT)
}

fn is_tls(url: &str) -> bool {
    scheme(url).is_some_and(|it| is_same("rediss", it))
}

fn scheme(text: &str) -> Option<&str> {
    text.split_once("://").map(|(scheme, _)| scheme)
}

fn is_same(name: &str, other: &str) -> bool {
    name.eq_ignore_ascii_case(other)
}

/// Whether somebody who wrote it meant a server: with a scheme, or as host and port.
fn is_like_address(text: &str) -> bool {
    !text.starts_with(['.', '/']) && text.split(',').any(is_one_address)
}

fn is_one_address(text: &str) -> bool {
    // User and password, or a host of numbers.
    if text
        .split_once('@')
        .is_some_and(|(who, _)| who.contains(':'))
        || text.starts_with('[')
    {
        return true;
    }
    let Some((before, after)) = text.split_once(':') else {
        return false;
    };
    let port = after.split('/').next().unwrap_or_default();
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_store = ["redis", "rediss", "valkey", "valkeys"]
        .iter()
        .any(|name| is_same(name, before));
    !before.contains('/') && (is_port || is_store || after.starts_with("//"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant_as_a_server_is_no_file() {
        for (text, is_redis, is_address) in [
            ("redis://a:1", true, true),
            ("REDISS://a", true, true),
            ("valkey://u:p@a", false, true),
            ("redis+unix:///x", false, true),
            ("redis:/x", false, true),
            ("127.0.0.1:6379", false, true),
            ("host:6379", false, true),
            ("host:6379/0", false, true),
            ("me:hush@host", false, true),
            (":hush@host:6379", false, true),
            ("[::1]:6379", false, true),
            ("a,b:6379", false, true),
            ("data/cairn.db", false, false),
            ("./host:6379", false, false),
            ("/a/b:6379", false, false),
            ("a:b", false, false),
            ("cairn.db", false, false),
        ] {
            assert_eq!(is_redis_url(text), is_redis, "{text}");
            assert_eq!(is_like_address(text), is_address, "{text}");
        }
        assert!(is_tls("REDISS://a") && !is_tls("redis://a"));
        for (text, expected) in [
            ("redis://a:1", 1),
            ("rediss://u:2@a:3/0", 3),
            ("redis://u:2@a", 6379),
            ("redis://[::1]", 6379),
            ("redis://[::1]:4", 4),
        ] {
            assert_eq!(port(text), expected, "{text}");
        }
    }
}
