//! The store's servers: one, or three that share the partitions.

use super::proxy::Proxy;
use cairn_testkit::{RedisCluster, RedisServer, eventually};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The longest that is waited for a good moment to kill a server.
const AIM: Duration = Duration::from_secs(2);
/// So many commands between two looks are a burst.
const BURST: u64 = 6;
/// The longest that servers may take to be one cluster again.
const TOGETHER: Duration = Duration::from_secs(30);

/// Real servers of Redis.
pub(crate) struct Stores {
    servers: Vec<RedisServer>,
    is_up: Vec<bool>,
    /// The servers answer when what they answer is on the disk.
    waits_for_disk: bool,
    /// The way to the only server; several have to be found where they say that they are.
    proxy: Option<Proxy>,
}

impl Stores {
    /// One server that writes its log so, or a cluster of three.
    pub(crate) fn start(appendfsync: &str, is_cluster: bool) -> Self {
        let servers = match is_cluster {
            true => RedisCluster::start().servers,
            false => vec![RedisServer::with(&[("appendfsync", appendfsync)])],
        };
        if is_cluster {
            for server in &servers {
                server.ask(&["CONFIG", "SET", "appendfsync", appendfsync]);
            }
        }
        Self {
            is_up: vec![true; servers.len()],
            proxy: (!is_cluster).then(|| Proxy::before(servers[0].port())),
            servers,
            waits_for_disk: appendfsync == "always",
        }
    }

    /// How processes find them.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let urls: Vec<_> = match &self.proxy {
            Some(proxy) => vec![proxy.url()],
            None => self.servers.iter().map(RedisServer::url).collect(),
        };
        let mut variables = vec![("CAIRN_STORE", urls.join(","))];
        if urls.len() > 1 {
            variables.push(("CAIRN_STORE__REDIS__MODE", "cluster".to_owned()));
        }
        variables
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.servers.len()
    }

    /// A folder on the disk of the first.
    pub(crate) fn folder(&self) -> PathBuf {
        self.servers[0].folder().to_owned()
    }

    /// The logs of all.
    pub(crate) fn logs(&self) -> impl Iterator<Item = PathBuf> {
        self.servers.iter().map(|it| it.folder().join("log"))
    }

    /// Kills one, at a bad moment if that is wanted, and says which moment it was. Not one that is
    /// not there.
    pub(crate) fn kill(&mut self, number: usize, is_aimed: bool) -> Option<&'static str> {
        if !self.is_up[number] {
            return None;
        }
        let how = match is_aimed {
            true => self.aim(number),
            false => "at random",
        };
        self.servers[number].kill();
        self.is_up[number] = false;
        Some(how)
    }

    /// An answer that is on its way does not arrive, where that can be done.
    pub(crate) fn lose_an_answer(&self) -> bool {
        let proxy = self.proxy.as_ref();
        proxy.inspect(|proxy| proxy.cut()).is_some()
    }

    /// Starts it again.
    pub(crate) fn start_again(&mut self, number: usize) {
        self.servers[number].start_again();
        self.is_up[number] = true;
    }

    /// Waits until they are one cluster, if they are several.
    pub(crate) fn settle(&self) {
        let is_whole = |server: &RedisServer| {
            let info = server.ask(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok")
        };
        eventually("a whole cluster", || {
            let is_over = self.count() == 1 || self.servers.iter().all(is_whole);
            is_over.then_some(())
        });
    }

    /// Waits for a bad moment, and says which one came: where answers do not wait for the disk, one
    /// at which more was answered while it was busy; else the middle of many commits.
    fn aim(&self, number: usize) -> &'static str {
        let began = Instant::now();
        let mut before: Option<u64> = None;
        while began.elapsed() < AIM {
            let (is_flushing, commands) = self.progress(number);
            if !self.waits_for_disk && !is_flushing {
                before = None;
                continue;
            }
            let first = *before.get_or_insert(commands);
            match self.waits_for_disk {
                true if commands > first + BURST => return "during a burst",
                true => before = Some(commands),
                false if commands > first + BURST => return "during a flush",
                false => {}
            }
        }
        "in a quiet moment"
    }

    /// Whether a flush is under way in the background, and the number of commands so far.
    fn progress(&self, number: usize) -> (bool, u64) {
        let info = self.servers[number].ask(&["INFO", "persistence", "stats"]);
        let field = |name: &str| {
            let mut lines = info.lines().filter_map(|line| line.split_once(':'));
            let found = lines.find(|(known, _)| *known == name);
            found.and_then(|(_, value)| value.trim().parse::<u64>().ok())
        };
        let flushes = field("aof_pending_bio_fsync").unwrap_or(0);
        (flushes > 0, field("total_commands_processed").unwrap_or(0))
    }

    /// The members of all queues that are not empty.
    pub(crate) fn queued(&self) -> Vec<String> {
        let mut found = Vec::new();
        for queue in ["due", "leases", "newer", "aside"] {
            for partition in 0..256 {
                let key = format!("cairn:{{p{partition:03x}}}:{queue}");
                let members = self.members(&key).into_iter();
                found.extend(members.map(|member| format!("{queue} {member}")));
            }
        }
        found
    }

    /// The members of a sorted set, from the server that has it.
    fn members(&self, key: &str) -> Vec<String> {
        let answers = self
            .servers
            .iter()
            .map(|it| it.ask(&["ZRANGE", key, "0", "-1"]));
        let answer = answers.into_iter().find(|it| it.starts_with('*'));
        let answer = answer.unwrap_or_else(|| panic!("no server has {key}"));
        let lines = answer.lines().skip(1).map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('$'));
        lines.map(str::to_owned).collect()
    }
}
