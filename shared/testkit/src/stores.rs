//! Where the sessions of a test are: the same test runs over each.

use crate::{RedisCluster, RedisSentinel, RedisServer};
use serde_json::{Value, json};

/// A file, or servers of Redis. The servers end with the value.
#[derive(Debug)]
pub struct TestStore {
    servers: Servers,
    urls: Vec<String>,
    /// What a process has to be told to find it.
    variables: Vec<(&'static str, String)>,
    /// How many servers were killed and started again.
    restarts: usize,
}

#[derive(Debug)]
enum Servers {
    /// The file that a site's settings name.
    File,
    One(RedisServer),
    Cluster(RedisCluster),
    Sentinel(RedisSentinel),
}

impl TestStore {
    /// The file in the folder where a process is started.
    pub fn file() -> Self {
        Self::of(Servers::File, Vec::new())
    }

    /// One server of Redis.
    pub fn redis() -> Self {
        let server = RedisServer::start();
        let urls = vec![server.url()];
        Self::of(Servers::One(server), urls)
    }

    /// A cluster of three servers.
    pub fn cluster() -> Self {
        let cluster = RedisCluster::start();
        let urls = cluster.urls();
        Self::of(Servers::Cluster(cluster), urls)
    }

    /// A cluster of three servers with a replica each.
    pub fn cluster_with_replicas() -> Self {
        let cluster = RedisCluster::with_replicas();
        let urls = cluster.urls();
        Self::of(Servers::Cluster(cluster), urls)
    }

    /// A master with a replica and a sentinel.
    pub fn sentinel() -> Self {
        let servers = RedisSentinel::start();
        let urls = vec![servers.url()];
        Self::of(Servers::Sentinel(servers), urls)
    }

    fn of(servers: Servers, urls: Vec<String>) -> Self {
        let mut store = Self {
            servers,
            urls,
            variables: Vec::new(),
            restarts: 0,
        };
        if !store.is_file() {
            store.variables = vec![
                ("CAIRN_STORE", store.urls.join(",")),
                ("CAIRN_STORE__REDIS__MODE", store.mode().to_owned()),
                // The servers keep what they answered, and so nobody may find a fault with them.
                ("CAIRN_STORE__REDIS__REQUIRE_DURABLE", "true".to_owned()),
            ];
            let master = store.master().map(str::to_owned);
            let master = master.map(|name| ("CAIRN_STORE__REDIS__MASTER", name));
            store.variables.extend(master);
        }
        store
    }

    /// Whether it is a file: then commands find it without a server between.
    pub fn is_file(&self) -> bool {
        matches!(self.servers, Servers::File)
    }

    /// What a process has to be told to find it.
    pub fn variables(&self) -> Vec<(&str, &str)> {
        let variables = self.variables.iter();
        variables
            .map(|(name, value)| (*name, value.as_str()))
            .collect()
    }

    /// The servers as the memory service's own configuration has them, for a test that has all in
    /// one process; null for a file, which only the test knows.
    pub fn config(&self) -> Value {
        match self.is_file() {
            true => Value::Null,
            false => json!({"redis": {
                "urls": self.urls, "mode": self.mode(), "master": self.master(),
            }}),
        }
    }

    /// Waits until the replicas have all that their masters have now.
    ///
    /// # Panics
    /// If there are none, or they get no further.
    pub fn wait_until_replicated(&self) {
        match &self.servers {
            Servers::Cluster(servers) => servers.wait_until_replicated(),
            Servers::Sentinel(servers) => servers.wait_until_replicated(),
            other => panic!("there are no replicas: {other:?}"),
        }
    }

    /// From here on what is acknowledged of a session, `namespace/session`, is lost with its master,
    /// which has to be killed within a few seconds.
    ///
    /// # Panics
    /// If it has no replica.
    pub fn cut_off_replica(&self, session: &str) {
        match &self.servers {
            Servers::Cluster(servers) => servers.cut_off_replica(servers.place_of(session)),
            Servers::Sentinel(servers) => servers.cut_off_replica(),
            other => panic!("there are no replicas: {other:?}"),
        }
    }

    /// Kills the master that has a session, so that its replica takes over.
    ///
    /// # Panics
    /// If it has no replica.
    pub fn kill_master(&mut self, session: &str) {
        match &mut self.servers {
            Servers::Cluster(servers) => {
                let place = servers.place_of(session);
                servers.servers[place].kill();
            }
            Servers::Sentinel(servers) => servers.master.kill(),
            other => panic!("there are no replicas: {other:?}"),
        }
    }

    /// Waits until the replica has taken the place of the session's master, which was killed.
    ///
    /// # Panics
    /// If it does not.
    pub fn wait_until_promoted(&self, session: &str) {
        match &self.servers {
            Servers::Cluster(servers) => servers.wait_until_promoted(servers.place_of(session)),
            Servers::Sentinel(servers) => servers.wait_until_promoted(),
            other => panic!("there are no replicas: {other:?}"),
        }
    }

    /// Kills a server, another one each time if there are several, starts it again, and returns when
    /// all is as it was. Does nothing to a file.
    ///
    /// # Panics
    /// If it is watched over by a sentinel, which may see another master meanwhile.
    pub fn restart_a_server(&mut self) {
        match &mut self.servers {
            Servers::File => {}
            Servers::One(server) => server.start_again(),
            Servers::Cluster(cluster) => {
                let number = self.restarts % cluster.servers.len();
                cluster.servers[number].start_again();
                cluster.wait_until_whole();
            }
            Servers::Sentinel(_) => panic!("a sentinel decides what becomes of its servers"),
        }
        self.restarts += 1;
    }

    fn mode(&self) -> &'static str {
        match self.servers {
            Servers::File | Servers::One(_) => "standalone",
            Servers::Cluster(_) => "cluster",
            Servers::Sentinel(_) => "sentinel",
        }
    }

    /// The name by which a sentinel knows the master.
    fn master(&self) -> Option<&'static str> {
        matches!(self.servers, Servers::Sentinel(_)).then_some(RedisSentinel::MASTER)
    }
}
