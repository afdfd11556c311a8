//! A cluster of servers.

use super::{RedisServer, free_port, wait_until};

/// Three masters that share the slots, without replicas.
#[derive(Debug)]
pub struct RedisCluster {
    /// Its servers.
    pub servers: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts a cluster, and returns when it answers. Takes a few seconds.
    ///
    /// # Panics
    /// If the servers do not find together.
    pub fn start() -> Self {
        let ranges = [("0", "5460"), ("5461", "10922"), ("10923", "16383")];
        let ports = ranges.map(|_| free_port().to_string());
        let servers: Vec<_> = ports
            .iter()
            .map(|port| {
                RedisServer::with(&[
                    ("cluster-enabled", "yes"),
                    ("cluster-port", port),
                    ("cluster-node-timeout", "2000"),
                ])
            })
            .collect();
        for (number, (server, (from, to))) in (1..).zip(servers.iter().zip(ranges)) {
            let number: u16 = number;
            server.ask(&["CLUSTER", "ADDSLOTSRANGE", from, to]);
            server.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &number.to_string()]);
        }
        for (server, port) in servers.iter().zip(&ports).skip(1) {
            let words = ["CLUSTER", "MEET", "127.0.0.1"];
            servers[0].ask(&[&words[..], &[&server.port.to_string(), port]].concat());
        }
        let cluster = Self { servers };
        cluster.wait_until_whole();
        cluster
    }

    /// Waits until every server knows of all others and that no slot is without a server.
    ///
    /// # Panics
    /// If that takes too long.
    pub fn wait_until_whole(&self) {
        for server in &self.servers {
            wait_until("a cluster", || {
                let info = server.ask(&["CLUSTER", "INFO"]);
                let slots = server.ask(&["CLUSTER", "SLOTS"]);
                let mut others = self.servers.iter();
                info.contains("cluster_state:ok")
                    && others.all(|other| slots.contains(&format!(":{}\r", other.port)))
            });
        }
    }

    /// The addresses of its servers.
    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::url).collect()
    }
}
