//! A master, its replica, and who decides between them.

use super::replication::{wait_until_in_step, wait_until_linked, wait_until_master};
use super::{RedisServer, SETTINGS, wait_until};
use std::time::Duration;

/// A master with a replica, and sentinels that watch over both.
#[derive(Debug)]
pub struct RedisSentinel {
    /// The master as long as it lives.
    pub master: RedisServer,
    /// The master afterwards.
    pub replica: RedisServer,
    sentinels: Vec<RedisServer>,
}

impl RedisSentinel {
    /// The name by which the sentinels know the master.
    pub const MASTER: &str = "cairn-master";
    /// A failover takes no longer. A sentinel that the machine held up for two seconds begins none for half
    /// a minute.
    pub const PATIENCE: Duration = Duration::from_secs(120);

    /// Starts all with one sentinel, and returns when the replica has what the master has.
    ///
    /// # Panics
    /// If they do not find together.
    pub fn start() -> Self {
        Self::with_sentinels(1)
    }

    /// The same with so many sentinels, of which most have to agree.
    ///
    /// # Panics
    /// If they do not find together.
    pub fn with_sentinels(count: usize) -> Self {
        let master = RedisServer::start();
        let port = master.port.to_string();
        let replica = RedisServer::with(&[("replicaof", &format!("127.0.0.1 {port}"))]);
        wait_until_linked(&replica);
        let (name, most) = (Self::MASTER, count / 2 + 1);
        let settings = format!(
            "sentinel monitor {name} 127.0.0.1 {port} {most}\n\
             sentinel down-after-milliseconds {name} 1000\n\
             sentinel failover-timeout {name} 3000\n"
        );
        let arguments = [SETTINGS.to_owned(), "--sentinel".to_owned()];
        let sentinels = (0..count).map(|_| RedisServer::launch(&arguments, &settings));
        let sentinels: Vec<_> = sentinels.collect();
        let knows = |sentinel: &RedisServer, what, other: &RedisServer| {
            let answer = sentinel.ask(&["SENTINEL", what, name]);
            answer.contains(&other.port.to_string())
        };
        wait_until("sentinels", || {
            sentinels.iter().all(|it| {
                let mut others = sentinels.iter().filter(|other| other.port != it.port);
                knows(it, "REPLICAS", &replica) && others.all(|other| knows(it, "SENTINELS", other))
            })
        });
        Self {
            master,
            replica,
            sentinels,
        }
    }

    /// The address of the first sentinel.
    pub fn url(&self) -> String {
        self.sentinels[0].url()
    }

    /// Kills the first sentinel.
    pub fn kill_sentinel(&mut self) {
        self.sentinels[0].kill();
    }

    /// Waits until the replica has all that the master has now.
    ///
    /// # Panics
    /// If it gets no further, or is cut off.
    pub fn wait_until_replicated(&self) {
        wait_until_in_step(&self.master, &self.replica);
    }

    /// From here on the replica gets nothing any more, and what is acknowledged is lost with the
    /// master. That has to be killed within a few seconds: the sentinel sets the replica right again,
    /// and later does not take one that was cut off for so long.
    pub fn cut_off_replica(&self) {
        self.replica.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    }

    /// Tells the sentinels to make the replica the master, while both live.
    pub fn begin_failover(&self) {
        // It takes a while before it trusts the replica.
        wait_until("a failover", || {
            let begun = self.sentinels[0].ask(&["SENTINEL", "FAILOVER", Self::MASTER]);
            begun.contains("OK") || begun.contains("INPROG")
        });
    }

    /// Waits until the replica has taken the place of the master, which was killed.
    ///
    /// # Panics
    /// If the sentinel does not see to that.
    pub fn wait_until_promoted(&self) {
        wait_until_master(&self.replica);
    }
}
