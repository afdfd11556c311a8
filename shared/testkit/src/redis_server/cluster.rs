//! A cluster of servers.

use super::replication::{wait_until_in_step, wait_until_linked, wait_until_master};
use super::{RedisServer, free_port, wait_until};

/// The slots of each master when the cluster is made.
const RANGES: [(&str, &str); 3] = [("0", "5460"), ("5461", "10922"), ("10923", "16383")];

/// Three masters that share the slots, with or without a replica each.
#[derive(Debug)]
pub struct RedisCluster {
    /// Its masters, as long as they live.
    pub servers: Vec<RedisServer>,
    /// The replica of each master, at its place, if they have any.
    pub replicas: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts a cluster without replicas, and returns when it answers. Takes a few seconds.
    ///
    /// # Panics
    /// If the servers do not find together.
    pub fn start() -> Self {
        Self::of(Vec::new(), &[])
    }

    /// The same where each master has a replica, which takes over from it a few seconds after its
    /// death, however long it was cut off; the slots of the others are served meanwhile.
    ///
    /// # Panics
    /// If the servers do not find together.
    pub fn with_replicas() -> Self {
        let settings = [
            ("cluster-require-full-coverage", "no"),
            ("cluster-replica-validity-factor", "0"),
            ("cluster-allow-replica-migration", "no"),
            ("repl-diskless-sync-delay", "0"),
        ];
        let replicas = RANGES.map(|_| server(&settings));
        Self::of(Vec::from(replicas), &settings)
    }

    fn of(replicas: Vec<RedisServer>, settings: &[(&str, &str)]) -> Self {
        let servers = Vec::from(RANGES.map(|_| server(settings)));
        for (number, (server, (from, to))) in (1_u16..).zip(servers.iter().zip(RANGES)) {
            server.ask(&["CLUSTER", "ADDSLOTSRANGE", from, to]);
            server.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &number.to_string()]);
        }
        for server in servers.iter().chain(&replicas).skip(1) {
            let bus = server.ask(&["CONFIG", "GET", "cluster-port"]);
            let bus = bus.lines().last().expect("the port of the cluster's bus");
            let words = ["CLUSTER", "MEET", "127.0.0.1"];
            servers[0].ask(&[&words[..], &[&server.port.to_string(), bus]].concat());
        }
        for (server, replica) in servers.iter().zip(&replicas) {
            // It has to hear of its master first.
            let words = ["CLUSTER", "REPLICATE", &server.id()];
            wait_until("a replica", || replica.ask(&words) == "+OK\r\n");
        }
        replicas.iter().for_each(wait_until_linked);
        let cluster = Self { servers, replicas };
        cluster.wait_until_whole();
        cluster
    }

    /// Waits until each server that runs knows of all others that do, and no slot is with one that
    /// does not.
    ///
    /// # Panics
    /// If that takes too long.
    pub fn wait_until_whole(&self) {
        let all = self.servers.iter().chain(&self.replicas);
        let running: Vec<_> = all.filter(|server| server.process.is_some()).collect();
        let ports: Vec<_> = running.iter().map(|server| server.port).collect();
        for server in &running {
            wait_until("a cluster", || {
                let info = server.ask(&["CLUSTER", "INFO"]);
                let nodes = server.ask(&["CLUSTER", "NODES"]);
                info.contains("cluster_state:ok") && is_whole(&nodes, &ports)
            });
        }
    }

    /// The addresses of its masters.
    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::url).collect()
    }

    /// The place of the master that has a session, `namespace/session`, by what its replica has.
    ///
    /// # Panics
    /// If there is no replica that has it.
    pub fn place_of(&self, session: &str) -> usize {
        let pattern = format!("*:s:{session}");
        let has = |server: &RedisServer| server.ask(&["KEYS", &pattern]).contains(session);
        let place = self.replicas.iter().position(has);
        place.expect("a replica that has the session")
    }

    /// Waits until each replica has all that its master has now.
    ///
    /// # Panics
    /// If one gets no further, or is cut off.
    pub fn wait_until_replicated(&self) {
        for (master, replica) in self.servers.iter().zip(&self.replicas) {
            wait_until_in_step(master, replica);
        }
    }

    /// From here on the replica at that place gets nothing any more, and what its master acknowledges
    /// is lost with it.
    pub fn cut_off_replica(&self, place: usize) {
        let replica = &self.replicas[place];
        // Its master refuses it when it comes again.
        replica.ask(&["CONFIG", "SET", "masterauth", "unknown"]);
        replica.ask(&["CLIENT", "KILL", "TYPE", "master"]);
    }

    /// Waits until the replica has taken the place of the master there, which was killed, and all
    /// others know.
    ///
    /// # Panics
    /// If it does not.
    pub fn wait_until_promoted(&self, place: usize) {
        let replica = &self.replicas[place];
        wait_until_master(replica);
        replica.ask(&["CONFIG", "SET", "masterauth", ""]);
        self.wait_until_whole();
    }
}

fn server(settings: &[(&str, &str)]) -> RedisServer {
    let usual = [
        ("cluster-enabled", "yes"),
        ("cluster-port", &free_port().to_string()),
        ("cluster-node-timeout", "2000"),
    ];
    RedisServer::with(&[&usual[..], settings].concat())
}

/// Whether these servers are there, as masters with slots or as replicas, and no other has slots.
fn is_whole(nodes: &str, ports: &[u16]) -> bool {
    let mut found = 0;
    for line in nodes.lines().filter(|line| line.contains('@')) {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [_, place, flags, ..] = fields[..] else {
            return false;
        };
        let has_slots = fields.len() > 8;
        if !ports
            .iter()
            .any(|port| place.contains(&format!(":{port}@")))
        {
            if has_slots {
                return false;
            }
            continue;
        }
        let is_away = ["fail", "handshake", "noaddr"];
        if is_away.iter().any(|flag| flags.contains(flag)) {
            return false;
        }
        found += usize::from(has_slots || flags.contains("slave"));
    }
    found == ports.len()
}
