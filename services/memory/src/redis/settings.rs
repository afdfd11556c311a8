//! Whether a server's settings keep what the port promises.

use super::node::{Node, Trouble};
use super::outage::{Outage, SAVE, STOP_AFTER_SAVE, outage};
use crate::port::StoreResult;
use redis::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// The oldest version with what the scripts use.
const OLDEST: u32 = 7;

/// What a server says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Settings {
    /// As in `7.0.15`; empty if it does not tell.
    pub(super) version: String,
    /// How many replicas it has, if it is a master.
    pub(super) replicas: u32,
    /// Where they are, as far as they are known to it: host and port.
    pub(super) replicas_at: Vec<(String, u16)>,
    /// It answers whoever can reach it, without a password.
    pub(super) lets_everybody_in: bool,
    /// The store's channels, as a pattern, if the user may not publish to them.
    pub(super) closed_channels: Option<String>,
    /// Why it takes no writes now, if that is known.
    pub(super) outage: Option<Outage>,
    /// `None` if the user may not look at them.
    pub(super) values: Option<BTreeMap<String, String>>,
}

/// The settings that promises depend on: what they must be, and what is lost otherwise.
pub(super) const NEEDED: [(&str, &str, &str); 4] = [
    (
        "appendonly",
        "yes",
        "what was answered is lost when the server ends",
    ),
    (
        "appendfsync",
        "always",
        "what was answered within the last seconds is lost when the server is killed",
    ),
    (
        "no-appendfsync-on-rewrite",
        "no",
        "what was answered during a rewrite of the log is lost when the server is killed",
    ),
    (
        "maxmemory-policy",
        "noeviction",
        "sessions are removed when memory runs short",
    ),
];

/// How many replicas a master needs to have near to take a write; 0 if it needs none.
pub(super) const MIN_REPLICAS: &str = "min-replicas-to-write";

/// 0 at a replica that Sentinel never makes a master.
const PRIORITY: &str = "replica-priority";

/// `yes` at a replica that never takes over in a cluster by itself.
const NO_FAILOVER: &str = "cluster-replica-no-failover";

/// Where the server listens, and whether it lets nobody else in as long as it has no password.
const BIND: &str = "bind";
const PROTECTED: &str = "protected-mode";

/// What is not as it must be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// What is known to be wrong.
    pub(super) wrong: Vec<String>,
    /// What cannot be checked.
    pub(super) unknown: Vec<String>,
}

impl Findings {
    /// All of them, for a server that has to be right for sure.
    pub(super) fn all(self) -> Vec<String> {
        [self.unknown, self.wrong].concat()
    }
}

impl Settings {
    /// Asks a server.
    ///
    /// # Errors
    /// If it does not answer; that it does not tell is none.
    pub(super) async fn of(node: &Arc<Node>) -> StoreResult<Self> {
        let mut info = redis::cmd("INFO");
        info.arg(&["server", "replication", "memory", "persistence"]);
        let mut config = redis::cmd("CONFIG");
        config.arg("GET");
        for (name, ..) in NEEDED {
            config.arg(name);
        }
        config.arg(&[
            MIN_REPLICAS,
            PRIORITY,
            NO_FAILOVER,
            SAVE,
            STOP_AFTER_SAVE,
            BIND,
            PROTECTED,
        ]);
        let info = told(node, node.send(&info).await)?;
        let config = told(node, node.send(&config).await)?;
        let values = config.map(values);
        Ok(Self {
            version: field(info.as_ref(), "redis_version").unwrap_or_default(),
            replicas: replicas(info.as_ref()),
            replicas_at: replicas_at(info.as_ref()),
            lets_everybody_in: false,
            closed_channels: None,
            outage: outage(info.as_ref(), values.as_ref()),
            values,
        })
    }

    /// Whether the server is too old to run the scripts.
    pub(super) fn is_too_old(&self) -> bool {
        let major = self.version.split('.').next();
        major
            .and_then(|major| major.parse::<u32>().ok())
            .is_some_and(|major| major < OLDEST)
    }

    /// What a failover may lose although the settings are as they must be: it is found and told when
    /// it happens, and may be what somebody wants, so it is no reason to refuse.
    pub(super) fn may_lose_in_failover(&self) -> bool {
        self.replicas > 0 && self.value(MIN_REPLICAS) == Some("0")
    }

    /// Whether it is a replica that somebody would have to make a master by hand.
    pub(super) fn stays_replica(&self, is_cluster: bool) -> bool {
        match is_cluster {
            true => self.value(NO_FAILOVER) == Some("yes"),
            false => self.value(PRIORITY) == Some("0"),
        }
    }

    /// Whether others than its own machine reach it, and it is for a password to keep them out.
    pub(super) fn listens_to_others(&self) -> bool {
        let is_local = |address: &str| {
            let address = address.trim_start_matches('-');
            address == "localhost" || address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        };
        let mut addresses = self.value(BIND).unwrap_or("127.0.0.1").split_whitespace();
        // Without any it listens on all.
        let is_bound = addresses.clone().next().is_some();
        self.value(PROTECTED) == Some("no") && !(is_bound && addresses.all(is_local))
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.values.as_ref()?.get(name).map(String::as_str)
    }

    /// What is not as it must be.
    pub(super) fn findings(&self) -> Findings {
        let mut findings = Findings::default();
        if self.version.is_empty() {
            let text = "the version cannot be checked: the user may not run INFO";
            findings.unknown.push(text.to_owned());
        }
        if self.is_too_old() {
            let text = format!(
                "its version is {}, and 7.0 or later is needed",
                self.version
            );
            findings.wrong.push(text);
        }
        if self.lets_everybody_in {
            let bind = self.value(BIND).unwrap_or_default();
            let text = format!(
                "it lets everybody in: it listens on {bind:?} without protected-mode, and asks for no \
                 password (store.redis.allow_exposed allows that)"
            );
            findings.wrong.push(text);
        }
        if let Some(channels) = &self.closed_channels {
            let text = format!(
                "its user may not publish to the channels {channels}: other processes see events and \
                 commands up to a second late and streamed text not at all, and may miss a loss of \
                 writes; give the user +spublish, +ssubscribe and &{channels} (deploy/redis/cairn.acl)"
            );
            findings.wrong.push(text);
        }
        if self.values.is_none() {
            let text = "the settings cannot be checked: the user may not run CONFIG GET";
            findings.unknown.push(text.to_owned());
            return findings;
        }
        for (name, needed, lost) in NEEDED {
            match self.value(name) {
                Some(value) if value == needed => {}
                Some(value) => {
                    let text = format!("{name} is {value}, not {needed}: {lost}");
                    findings.wrong.push(text);
                }
                None => {
                    let text = format!("{name} cannot be checked: it has to be {needed}");
                    findings.unknown.push(text);
                }
            }
        }
        findings
    }
}

/// The answer, or `None` if the server does not want to give it.
fn told(node: &Node, answer: Result<Value, Trouble>) -> StoreResult<Option<Value>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        // Some who offer Redis as a service have taken the commands out.
        Err(Trouble::Failed(error)) if matches!(error.code(), Some("NOPERM" | "ERR")) => Ok(None),
        Err(trouble) => Err(trouble.told(node)),
    }
}

pub(super) fn field(info: Option<&Value>, name: &str) -> Option<String> {
    let text = text(info?)?;
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.map(|value| value.trim().to_owned())
}

fn replicas(info: Option<&Value>) -> u32 {
    let is_master = field(info, "role").as_deref() == Some("master");
    let replicas = field(info, "connected_slaves").filter(|_| is_master);
    replicas.and_then(|it| it.parse().ok()).unwrap_or(0)
}

/// The lines of a master's INFO that begin like `slave0:ip=10.0.0.2,port=6379,`.
fn replicas_at(info: Option<&Value>) -> Vec<(String, u16)> {
    let text = info.and_then(text).unwrap_or_default();
    let places = text.lines().filter_map(|line| {
        let (number, fields) = line.strip_prefix("slave")?.split_once(':')?;
        number.parse::<u32>().ok()?;
        let field = |name: &str| {
            let mut fields = fields.trim().split(',');
            fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
        };
        let port = field("port")?.parse().ok()?;
        Some((field("ip")?.to_owned(), port))
    });
    places.collect()
}

fn values(config: Value) -> BTreeMap<String, String> {
    let pairs: Vec<_> = match config {
        Value::Map(pairs) => pairs,
        Value::Array(values) => {
            let pairs = values.chunks_exact(2);
            pairs.map(|p| (p[0].clone(), p[1].clone())).collect()
        }
        _ => Vec::new(),
    };
    let pairs = pairs.iter();
    pairs
        .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
        .collect()
}

pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(changes: &[(&str, Option<&str>)]) -> Settings {
        let needed = NEEDED.iter();
        let mut values: BTreeMap<_, _> = needed
            .map(|(name, value, _)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        for (name, value) in changes {
            match value {
                Some(value) => values.insert((*name).to_owned(), (*value).to_owned()),
                None => values.remove(*name),
            };
        }
        Settings {
            version: "7.0.15".to_owned(),
            values: Some(values),
            ..Settings::default()
        }
    }

    #[test]
    fn settings_that_keep_what_was_answered_are_no_finding() {
        assert_eq!(settings(&[]).findings(), Findings::default());
    }

    #[test]
    fn each_setting_that_loses_something_is_told_by_its_name() {
        for (name, value) in [
            ("appendonly", Some("no")),
            ("appendfsync", Some("everysec")),
            ("no-appendfsync-on-rewrite", Some("yes")),
            ("maxmemory-policy", Some("allkeys-lru")),
            ("appendfsync", None),
        ] {
            let findings = settings(&[(name, value)]).findings();
            assert_eq!(findings.wrong.is_empty(), value.is_none(), "{findings:?}");
            let findings = findings.all();
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert!(findings[0].starts_with(name), "{findings:?}");
            assert!(findings[0].contains(value.unwrap_or("cannot be checked")));
        }
    }

    #[test]
    fn a_master_that_waits_for_no_replica_may_lose_something() {
        for (role, least, may_lose) in [
            ("role:master\r\nconnected_slaves:2\r\n", Some("0"), true),
            ("role:master\r\nconnected_slaves:2\r\n", Some("1"), false),
            ("role:master\r\nconnected_slaves:2\r\n", None, false),
            ("role:master\r\nconnected_slaves:0\r\n", Some("0"), false),
            ("role:slave\r\nconnected_slaves:1\r\n", Some("0"), false),
        ] {
            let info = Value::BulkString(format!("# Replication\r\n{role}").into_bytes());
            let settings = Settings {
                replicas: replicas(Some(&info)),
                ..settings(&[(MIN_REPLICAS, least)])
            };
            assert_eq!(
                settings.may_lose_in_failover(),
                may_lose,
                "{role} {least:?}"
            );
            assert_eq!(settings.findings(), Findings::default());
        }
    }

    #[test]
    fn a_master_says_where_its_replicas_are() {
        let info = "# Replication\r\nrole:master\r\nconnected_slaves:2\r\n\
                    slave0:ip=10.0.0.2,port=6379,state=online,offset=5,lag=0\r\n\
                    slave1:ip=::1,port=6380,state=wait_bgsave,offset=0,lag=0\r\n\
                    slave_read_only:1\r\nslave2:ip=nowhere\r\n";
        let info = Value::BulkString(info.into());
        let want = [("10.0.0.2".to_owned(), 6379), ("::1".to_owned(), 6380)];
        assert_eq!(replicas_at(Some(&info)), want);
        assert_eq!(replicas_at(None), []);
    }

    #[test]
    fn a_replica_may_be_one_that_never_takes_over() {
        for (name, value, is_cluster, stays) in [
            (PRIORITY, "100", false, false),
            (PRIORITY, "0", false, true),
            (PRIORITY, "0", true, false),
            (NO_FAILOVER, "no", true, false),
            (NO_FAILOVER, "yes", true, true),
        ] {
            let settings = settings(&[(name, Some(value))]);
            assert_eq!(settings.stays_replica(is_cluster), stays, "{name} {value}");
        }
        assert!(!Settings::default().stays_replica(false));
    }

    #[test]
    fn what_cannot_be_looked_at_cannot_be_checked() {
        let Findings { wrong, unknown } = Settings::default().findings();
        assert_eq!((wrong.len(), unknown.len()), (0, 2));
        assert!(unknown.iter().all(|f| f.contains("cannot be checked")));
    }

    #[test]
    fn servers_before_seven_are_too_old() {
        for (version, is_too_old) in [
            ("6.2.14", true),
            ("7.0.0", false),
            ("10.1", false),
            ("", false),
        ] {
            let settings = Settings {
                version: version.to_owned(),
                ..Settings::default()
            };
            assert_eq!(settings.is_too_old(), is_too_old, "{version}");
        }
    }
}
